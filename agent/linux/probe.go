package linux

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/probe"
	"github.com/gpuaas/gpuaas/protocol"
)

// agentPath is the path of this program for all users.
const agentPath = "/usr/bin/gpuaas-agent"

// helperSocket is the socket to which only the network process may connect.
const helperSocket = "/run/gpuaas-agent/helper.sock"

// ProbeInside implements step.Prober: it logs in over SSH as the tenant would, with a key of its own that lives
// as long as the call. In a new home it also tries in that session what must work and what must not, has systemd
// read its units again, and tries once more. In a home where a tenant has worked, the shell runs files of the
// tenant, so the session would prove nothing: there the state of the host OS proves the isolation.
func (h *Host) ProbeInside(ctx context.Context, o protocol.AllocationParams) (results []protocol.ProbeResult, err error) {
	if err := hostos.CheckTenant(o.User, o.UID); err != nil {
		return nil, err
	}
	results, err = h.probeSSHD(ctx, o)
	if err != nil {
		return nil, err
	}
	key, removeKey, err := h.probeKey(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, removeKey()) }()
	address, err := h.sshAddress(ctx, o.User)
	if err != nil {
		return nil, err
	}
	session := &probe.Session{OS: &h.OS, Address: address, Socket: h.SSHD}
	if !h.isNew(o.User) {
		if err := session.Login(ctx, o.User, key); err != nil {
			return nil, err
		}
		return append(results, protocol.ProbeResult{Name: "login", Expected: "ok", Got: "ok"}), nil
	}
	inside, err := h.probeSession(ctx, o, session, key)
	if err != nil {
		return nil, err
	}
	h.setNew(o.User, false)
	return append(results, inside...), nil
}

// probeSession probes in a session twice: before and after systemd has read its units again. A restriction that exists
// only in the running systemd, and in no file, would be lost with the next reload.
func (h *Host) probeSession(ctx context.Context, o protocol.AllocationParams, session *probe.Session, key ssh.Signer) (results []protocol.ProbeResult, err error) {
	sentinel, removeSentinels, err := h.sentinels()
	if err != nil {
		return nil, err
	}
	defer removeSentinels()
	for _, when := range []string{"", " after daemon-reload"} {
		if when != "" {
			if err := h.Reload(ctx); err != nil {
				return nil, err
			}
		}
		a, want, err := h.attempts(ctx, o, sentinel)
		if err != nil {
			return nil, err
		}
		f, err := session.Run(ctx, o.User, key, a)
		if err != nil {
			return nil, err
		}
		for _, r := range probe.Compare(o, f, want, h.Exists("/run/systemd/container")) {
			r.Name = a.Label(r.Name) + when
			results = append(results, r)
		}
	}
	return results, nil
}

// setNew records whether this process has created the home and no probe has succeeded in it. After a restart of the
// agent no home counts as new, because a tenant may have worked in it meanwhile.
func (h *Host) setNew(name string, is bool) {
	h.homesMu.Lock()
	defer h.homesMu.Unlock()
	if h.newHomes == nil {
		h.newHomes = map[string]bool{}
	}
	if delete(h.newHomes, name); is {
		h.newHomes[name] = true
	}
}

func (h *Host) isNew(name string) bool {
	h.homesMu.Lock()
	defer h.homesMu.Unlock()
	return h.newHomes[name]
}

// Addresses for which a probe reads the configuration of sshd. The second one belongs to no computer.
const loopback, outside = "127.0.0.1", "192.0.2.1"

// probeSSHD compares what sshd would do with this tenant, from all of its files.
func (h *Host) probeSSHD(ctx context.Context, o protocol.AllocationParams) (results []protocol.ProbeResult, err error) {
	have, err := h.effective(ctx, o.User, loopback)
	if err != nil {
		return nil, err
	}
	if o.LoginFrom == protocol.FromLoopback {
		others, err := h.effective(ctx, o.User, outside)
		if err != nil {
			return nil, err
		}
		results = append(results, protocol.ProbeResult{Name: "sshd:logins from elsewhere are denied to", Expected: Group, Got: others["denygroups"]})
	}
	forwarding := cmp.Or(o.Forwarding, "no") // local, as sshd calls it
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
		{"trustedusercakeys", userCAFile},
		{"authorizedprincipalsfile", PrincipalsDir + "/%u"},
		{"revokedkeys", revokedFile},
		{"permituserrc", "no"},
		{"allowagentforwarding", "no"},
		{"allowtcpforwarding", forwarding},
		{"allowstreamlocalforwarding", forwarding},
		{"x11forwarding", "no"},
		{"permittunnel", "no"},
	} {
		results = append(results, protocol.ProbeResult{Name: "sshd:" + want[0], Expected: want[1], Got: have[want[0]]})
	}
	if o.Forwarding != "" {
		results = append(results, protocol.ProbeResult{Name: "sshd:disableforwarding", Expected: "no", Got: have["disableforwarding"]})
	}
	return results, nil
}

// probeKey allows a new key to log in to the account, only for the command of the probe. The
// private key is in the memory of this process and in no file.
func (h *Host) probeKey(o protocol.AllocationParams) (ssh.Signer, func() error, error) {
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
	line := fmt.Sprintf("restrict,port-forwarding,command=\"%s %s\" %s", h.agent(), probe.InsideCommand, ssh.MarshalAuthorizedKey(sshPublic))
	file := filepath.Join(ProbeDir, o.User)
	if _, err := h.Put(file, []byte(line), keyFileMode, o.UID); err != nil {
		return nil, nil, err
	}
	return signer, func() error {
		_, err := h.Remove(file)
		return err
	}, nil
}

func (h *Host) agent() string {
	if h.Agent != "" {
		return h.Agent
	}
	return agentPath
}

// sentinels puts a file into each folder that a tenant must have one of its own for.
func (h *Host) sentinels() (files []string, remove func(), err error) {
	remove = func() {
		for _, file := range files {
			_ = os.Remove(h.Path(file)) // it is empty
		}
	}
	name := ".gpuaas-" + rand.Text()
	for _, folder := range h.PrivateFolders() {
		file := filepath.Join(folder.Path, name)
		if err := os.WriteFile(h.Path(file), nil, 0o644); err != nil { //nolint:gosec // to be seen, if it can be
			remove()
			return nil, nil, err
		}
		files = append(files, file)
	}
	return files, remove, nil
}

// attempts lists the attempts of a probe, and the expected outcome of each by its name.
func (h *Host) attempts(ctx context.Context, o protocol.AllocationParams, sentinels []string) (a probe.Attempts, want map[string]string, err error) {
	want = map[string]string{}
	cards, err := h.cards(ctx)
	if err != nil {
		return a, nil, err
	}
	// Without a driver, as in the rig's containers, opening a permitted device returns ENXIO.
	open := "ok"
	if !h.Exists("/proc/driver/nvidia/version") {
		open = probe.NoDevice
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
	users, err := h.Users()
	if err != nil {
		return a, nil, err
	}
	for _, u := range users {
		if u.UID >= hostos.MinUID && u.UID <= hostos.MaxUID && u.Name != o.User && h.Exists(hostos.HomeOf(u.Name)) {
			a.Folders, a.Foreign = append(a.Folders, hostos.HomeOf(u.Name)), append(a.Foreign, hostos.HomeOf(u.Name))
		}
	}
	for _, dir := range []string{"/root", StateDir, hostos.HomesDir, "/var/lib/gpuaas/identity", "/var/lib/gpuaas/journal"} {
		if h.Exists(dir) {
			a.Folders = append(a.Folders, dir)
		}
	}
	for _, dir := range a.Folders {
		want["folder:"+dir] = "EACCES"
	}
	if o.Storage != nil {
		for _, m := range o.Storage.Mounts {
			folder := filepath.Join(hostos.HomeOf(o.User), m.At)
			if a.Mounts, want["mount:"+folder], want["write:"+folder] = append(a.Mounts, folder), "ok", "ok"; m.ReadOnly {
				want["write:"+folder] = "EROFS"
			}
		}
	}
	a.Files = sentinels
	for _, file := range sentinels {
		want["private:"+filepath.Dir(file)] = "ENOENT"
	}
	if h.Exists(helperSocket) {
		a.Sockets, want["socket:"+helperSocket] = []string{helperSocket}, "EACCES"
	}
	const metadata = "169.254.169.254:80"
	a.Dials, want["dial:"+metadata] = []string{metadata}, probe.Unreachable
	// sshd is one of the services of the node on loopback. Between the programs of a tenant loopback works.
	service, err := h.sshAddress(ctx, o.User)
	if err != nil {
		return a, nil, err
	}
	want["loopback"] = "ok"
	_, port, _ := net.SplitHostPort(service)
	for _, address := range []string{service, net.JoinHostPort("::1", port)} {
		a.Dials, want["dial:"+address] = append(a.Dials, address), probe.Silent
	}
	// Programs of other tenants, and of the agent, except at what the owner of the node opens.
	foreign, err := probe.Listeners(&h.OS, func(at netip.AddrPort, owner int) bool {
		other := hostos.IsTenant(owner) && owner != o.UID || owner == h.Rules.AgentUID && owner > 0
		return other && !h.Rules.Opens(at)
	})
	if err != nil {
		return a, nil, err
	}
	for _, address := range foreign {
		a.Dials, a.Foreign, want["dial:"+address] = append(a.Dials, address), append(a.Foreign, address), probe.Silent
	}
	// Through the connection of the tenant the same is reachable, or nothing without forwarding.
	want["forward:"+probe.OwnPort] = "ok"
	for _, address := range a.Dials {
		want["forward:"+address] = want["dial:"+address]
	}
	if o.Forwarding == "" {
		for _, address := range append(a.Dials, probe.OwnPort) {
			want["forward:"+address] = "EPERM"
		}
	}
	return a, want, nil
}

// sshAddress returns the address of sshd on this host OS.
func (h *Host) sshAddress(ctx context.Context, name string) (string, error) {
	have, err := h.effective(ctx, name, loopback)
	if err != nil {
		return "", err
	}
	port, err := strconv.ParseUint(have["port"], 10, 16)
	if err != nil {
		return "", fmt.Errorf("sshd listens on port %q", have["port"])
	}
	return net.JoinHostPort("127.0.0.1", strconv.FormatUint(port, 10)), nil
}

// LoginAddress returns the address of sshd on loopback.
func (h *Host) LoginAddress(ctx context.Context, user string) (string, error) {
	return h.sshAddress(ctx, user)
}
