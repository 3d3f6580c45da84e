package linux

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/protocol"
)

// AgentPath is where this program is for everybody on the host.
const AgentPath = "/usr/bin/gpuaas-agent"

// HelperSocket is what only the agent's other half may connect to.
const HelperSocket = "/run/gpuaas-agent/helper.sock"

// ProbeInside implements hook.Prober: it logs in over SSH as the tenant would, with
// a key of its own that lives as long as the call, tries in that session what must
// work and what must not, has systemd read its units again, and tries once more.
func (h *Host) ProbeInside(ctx context.Context, o protocol.Order) (results []protocol.ProbeResult, err error) {
	if err := tenant(o.User, o.UID); err != nil {
		return nil, err
	}
	results, err = h.probeSSHD(ctx, o.User)
	if err != nil {
		return nil, err
	}
	key, removeKey, err := h.probeKey(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, removeKey()) }()
	sentinel, removeSentinels, err := h.sentinels()
	if err != nil {
		return nil, err
	}
	defer removeSentinels()
	for _, when := range []string{"", " after daemon-reload"} {
		if when != "" {
			if err := h.reload(ctx); err != nil {
				return nil, err
			}
		}
		a, want, err := h.attempts(ctx, o, sentinel)
		if err != nil {
			return nil, err
		}
		f, err := h.login(ctx, o.User, key, a)
		if err != nil {
			return nil, err
		}
		for _, r := range compare(o, f, want, h.exists("/run/systemd/container")) {
			r.Name += when
			results = append(results, r)
		}
	}
	return results, nil
}

// probeSSHD compares what sshd would do with this tenant, whatever file says so.
func (h *Host) probeSSHD(ctx context.Context, name string) (results []protocol.ProbeResult, err error) {
	have, err := h.effective(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, want := range [][2]string{
		{"usepam", "yes"},
		{"strictmodes", "yes"},
		{"permituserenvironment", "no"},
		{"authenticationmethods", "publickey"},
		{"passwordauthentication", "no"},
		{"kbdinteractiveauthentication", "no"},
		{"hostbasedauthentication", "no"},
		{"authorizedkeyscommand", "none"},
		{"authorizedkeysfile", KeysDir + "/%u " + ProbeDir + "/%u"},
		{"trustedusercakeys", UserCAFile},
		{"authorizedprincipalsfile", PrincipalsDir + "/%u"},
		{"revokedkeys", RevokedFile},
		{"permituserrc", "no"},
		{"allowagentforwarding", "no"},
		{"allowtcpforwarding", "no"},
		{"allowstreamlocalforwarding", "no"},
		{"x11forwarding", "no"},
		{"permittunnel", "no"},
	} {
		results = append(results, protocol.ProbeResult{Name: "sshd:" + want[0], Want: want[1], Got: have[want[0]]})
	}
	return results, nil
}

// probeKey lets a fresh key into the account, for the probe's command and nothing
// else. It is in this process's memory and in no file.
func (h *Host) probeKey(o protocol.Order) (ssh.Signer, func() error, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	line := fmt.Sprintf("restrict,command=\"%s %s\" %s", h.agent(), InsideCommand, ssh.MarshalAuthorizedKey(sshPublic))
	file := filepath.Join(ProbeDir, o.User)
	if _, err := h.put(file, []byte(line), keyFileMode, o.UID); err != nil {
		return nil, nil, err
	}
	return signer, func() error {
		_, err := h.remove(file)
		return err
	}, nil
}

func (h *Host) agent() string {
	if h.Agent != "" {
		return h.Agent
	}
	return AgentPath
}

// sentinels puts a file into each folder that a tenant must have one of its own for.
func (h *Host) sentinels() (files []string, remove func(), err error) {
	remove = func() {
		for _, file := range files {
			_ = os.Remove(h.path(file)) // it is empty, and says nothing
		}
	}
	name := ".gpuaas-" + rand.Text()
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(h.path(file), nil, 0o644); err != nil { //nolint:gosec // to be seen, if it can be
			remove()
			return nil, nil, err
		}
		files = append(files, file)
	}
	return files, remove, nil
}

// attempts lists what to try, and what must come of it by name of the attempt.
func (h *Host) attempts(ctx context.Context, o protocol.Order, sentinels []string) (a attempts, want map[string]string, err error) {
	want = map[string]string{}
	cards, err := h.board(ctx)
	if err != nil {
		return a, nil, err
	}
	// Where no driver is, as on a test's host, a device that may be opened is not there.
	open := "ok"
	if !h.exists("/proc/driver/nvidia/version") {
		open = unixNoDevice
	}
	for _, c := range cards {
		a.Devices = append(a.Devices, c.file())
		want["device:"+c.file()] = "EPERM"
		if slices.Contains(o.GPUs, c.UUID) {
			want["device:"+c.file()] = open
		}
	}
	a.Devices = append(a.Devices, "/dev/nvidiactl")
	want["device:/dev/nvidiactl"] = open
	users, err := h.users()
	if err != nil {
		return a, nil, err
	}
	for _, u := range users {
		if u.uid >= MinUID && u.uid <= maxUID && u.name != o.User && h.exists(HomeOf(u.name)) {
			a.Folders = append(a.Folders, HomeOf(u.name))
		}
	}
	for _, dir := range []string{"/root", StateDir, HomesDir, "/var/lib/gpuaas/identity", "/var/lib/gpuaas/journal"} {
		if h.exists(dir) {
			a.Folders = append(a.Folders, dir)
		}
	}
	for _, dir := range a.Folders {
		want["folder:"+dir] = "EACCES"
	}
	a.Files = sentinels
	for _, file := range sentinels {
		want["private:"+filepath.Dir(file)] = "ENOENT"
	}
	if h.exists(HelperSocket) {
		a.Sockets, want["socket:"+HelperSocket] = []string{HelperSocket}, "EACCES"
	}
	const metadata = "169.254.169.254:80"
	a.Dials, want["dial:"+metadata] = []string{metadata}, refused
	return a, want, nil
}

const (
	unixNoDevice = "ENXIO"
	refused      = "refused"
)

// compare turns what the session found into results.
func compare(o protocol.Order, f findings, want map[string]string, container bool) (results []protocol.ProbeResult) {
	add := func(name, want, got string) {
		results = append(results, protocol.ProbeResult{Name: name, Want: want, Got: got})
	}
	slice := "/user.slice/" + SliceOf(o.UID)
	cgroup := f.Cgroup
	if strings.HasPrefix(cgroup, slice+"/") {
		cgroup = slice
	}
	add("cgroup", slice, cgroup)
	add("uid", strconv.Itoa(o.UID), strconv.Itoa(f.UID))
	add("home", "ok", f.Home)
	add("processes of others", "0", strconv.Itoa(f.Strangers))
	if !container { // there it is the outer host's to say
		got := f.Namespaces
		if got == "ENOSPC" {
			got = "EPERM" // of user.max_user_namespaces: as good
		}
		add("user namespace", "EPERM", got)
	}
	private, dials := map[string]string{}, map[string]string{}
	for file, got := range f.Files {
		private[filepath.Dir(file)] = got // its name is another every time
	}
	for address, got := range f.Dials {
		dials[address] = got
		if slices.Contains([]string{"ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH"}, got) {
			dials[address] = refused // by our rules, or there is no way there at all
		}
	}
	for kind, found := range map[string]map[string]string{"device": f.Devices, "folder": f.Folders, "private": private, "socket": f.Sockets, "dial": dials} {
		for name, got := range found {
			add(kind+":"+name, want[kind+":"+name], got)
		}
	}
	for name := range want {
		if !slices.ContainsFunc(results, func(r protocol.ProbeResult) bool { return r.Name == name }) {
			add(name, want[name], "not tried") // whoever answered was not our probe
		}
	}
	slices.SortFunc(results, func(a, b protocol.ProbeResult) int { return strings.Compare(a.Name, b.Name) })
	return results
}

const (
	// loginWithin is for one login with all its attempts.
	loginWithin = 10 * time.Second
	// dialAgain: sshd closes its port for a moment while it reloads.
	dialAgain = 50 * time.Millisecond
)

// login runs the probe in a session of the tenant's.
func (h *Host) login(ctx context.Context, name string, key ssh.Signer, a attempts) (f findings, err error) {
	ctx, cancel := context.WithTimeout(ctx, loginWithin)
	defer cancel()
	hostKeys, err := h.hostKeys()
	if err != nil {
		return f, err
	}
	work, err := json.Marshal(a)
	if err != nil {
		return f, err
	}
	address, err := h.sshAddress(ctx, name)
	if err != nil {
		return f, err
	}
	client, stop, err := h.connect(ctx, address, &ssh.ClientConfig{
		User: name, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyAlgorithms: algorithms(hostKeys),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if !slices.ContainsFunc(hostKeys, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) }) {
				return errors.New("the responding process is not the sshd of this node")
			}
			return nil
		},
	})
	if err != nil {
		return f, err
	}
	defer stop()
	defer func() { _ = client.Close() }() // what counts has been read
	session, err := client.NewSession()
	if err != nil {
		return f, fmt.Errorf("opening a session: %w", err)
	}
	says := &capped{}
	session.Stdin, session.Stderr = bytes.NewReader(work), says
	out, err := session.Output(InsideCommand)
	if err != nil {
		return f, fmt.Errorf("probing in the session: %w: %s", err, firstLine(says.String()))
	}
	if err := json.Unmarshal(out, &f); err != nil {
		return f, fmt.Errorf("reading the result of the probe: %w", err)
	}
	return f, nil
}

// connect logs in. sshd closes its port for a moment while it reloads: what is
// refused or hung up on before a handshake is tried again.
func (h *Host) connect(ctx context.Context, address string, config *ssh.ClientConfig) (*ssh.Client, func() bool, error) {
	network, to := "tcp", address
	if h.SSHD != "" {
		network, to = "unix", h.SSHD
	}
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, network, to)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			var c ssh.Conn
			var channels <-chan ssh.NewChannel
			var requests <-chan *ssh.Request
			if c, channels, requests, err = ssh.NewClientConn(conn, address, config); err == nil {
				return ssh.NewClient(c, channels, requests), stop, nil
			}
			stop()
			err = errors.Join(fmt.Errorf("logging in: %w", err), conn.Close())
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				return nil, nil, errors.Join(err, ctx.Err())
			}
		}
		again := time.NewTimer(dialAgain)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, nil, fmt.Errorf("connecting to sshd: %w", err)
		}
	}
}

// sshAddress is where sshd listens on this host.
func (h *Host) sshAddress(ctx context.Context, name string) (string, error) {
	have, err := h.effective(ctx, name)
	if err != nil {
		return "", err
	}
	port, err := strconv.ParseUint(have["port"], 10, 16)
	if err != nil {
		return "", fmt.Errorf("sshd listens on port %q", have["port"])
	}
	return net.JoinHostPort("127.0.0.1", strconv.FormatUint(port, 10)), nil
}

// hostKeys are those of this host's sshd.
func (h *Host) hostKeys() (keys []ssh.PublicKey, err error) {
	files, err := filepath.Glob(h.path("/etc/ssh/ssh_host_*_key.pub"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := h.read(filepath.Join("/etc/ssh", filepath.Base(file)))
		if err != nil {
			return nil, err
		}
		if key, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the sshd of this node has no host keys")
	}
	return keys, nil
}

func algorithms(keys []ssh.PublicKey) (names []string) {
	for _, k := range keys {
		if k.Type() == ssh.KeyAlgoRSA {
			names = append(names, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		names = append(names, k.Type())
	}
	return names
}
