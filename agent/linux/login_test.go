package linux_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/protocol"
)

// pair is a key, and its line of a file of keys.
type pair struct {
	signer ssh.Signer
	line   string
}

func newPair(t *testing.T) pair {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pair{signer, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))}
}

// certify makes a certificate for a fresh key.
func (authority pair) certify(t *testing.T, principal string, serial uint64) ssh.Signer {
	t.Helper()
	key := newPair(t)
	cert := &ssh.Certificate{
		Key: key.signer.PublicKey(), Serial: serial, CertType: ssh.UserCert, KeyId: "test", ValidPrincipals: []string{principal},
		ValidAfter: uint64(time.Now().Add(-time.Minute).Unix()), ValidBefore: uint64(time.Now().Add(5 * time.Minute).Unix()),
		Permissions: ssh.Permissions{Extensions: map[string]string{"permit-pty": "", "permit-port-forwarding": ""}},
	}
	if err := cert.SignCert(rand.Reader, authority.signer); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(cert, key.signer)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// enter logs in.
func enter(t *testing.T, user string, with ssh.Signer) (*ssh.Client, error) {
	t.Helper()
	config := &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(with)}, Timeout: 10 * time.Second,
		HostKeyCallback: func(string, net.Addr, ssh.PublicKey) error { return nil },
	}
	for range 100 {
		c, err := ssh.Dial("tcp", "127.0.0.1:22", config)
		if err != nil && strings.Contains(err.Error(), "connection refused") { // sshd reloads
			time.Sleep(50 * time.Millisecond)
			continue
		}
		return c, err
	}
	return nil, fmt.Errorf("sshd does not listen")
}

// runInSession runs a command in a separate session.
func runInSession(t *testing.T, c *ssh.Client, command string) string {
	t.Helper()
	session, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := session.CombinedOutput(command)
	if err != nil {
		t.Logf("%s: %v", command, err)
	}
	return strings.TrimSpace(string(out))
}

func (b attempts) try(t *testing.T, when string) {
	t.Helper()
	for name, d := range b {
		c, err := enter(t, d.user, d.with)
		if err == nil {
			_ = c.Close()
		}
		if (err == nil) != d.opens {
			t.Errorf("%s: %s: opens is %v, want %v (%v)", when, name, err == nil, d.opens, err)
		}
	}
}

// attempts are logins, each with whether it succeeds.
type attempts map[string]struct {
	user  string
	with  ssh.Signer
	opens bool
}

// Certificates and registered keys together: which logins succeed, and which no longer do.
func TestWhoGetsIn(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	o, other := paramsOf(t, h, 0), paramsOf(t, h, 1)
	first, second, authority, stranger := newPair(t), newPair(t), newPair(t), newPair(t)
	o.PublicKeys, o.UserCA, o.Revoked = []string{first.line}, []string{authority.line}, []uint64{7}
	other.UserCA = o.UserCA
	for _, o := range []protocol.AllocationParams{o, other} {
		if _, err := carry(t.Context(), h, protocol.ProvisionUser, o); err != nil {
			t.Fatal(err)
		}
	}
	mine, revoked := authority.certify(t, o.Principal, 1), authority.certify(t, o.Principal, 7)
	attempts{
		"a registered key":                     {o.User, first.signer, true},
		"a certificate":                        {o.User, mine, true},
		"a certificate of another allocation":  {o.User, authority.certify(t, other.Principal, 2), false},
		"a revoked certificate":                {o.User, revoked, false},
		"a certificate of another authority":   {o.User, stranger.certify(t, o.Principal, 3), false},
		"a stranger's key":                     {o.User, stranger.signer, false},
		"another tenant's account":             {other.User, first.signer, false},
		"root with a certificate":              {"root", authority.certify(t, "root", 4), false},
		"root with a tenant's certificate":     {"root", mine, false},
		"the authority's own key":              {o.User, authority.signer, false},
		"a certificate without our principal":  {o.User, authority.certify(t, o.User, 5), false},
		"the other tenant with a certificate":  {other.User, authority.certify(t, other.Principal, 6), true},
		"the other tenant with our revocation": {other.User, authority.certify(t, other.Principal, 7), false},
	}.try(t, "provisioned")

	open, err := enter(t, o.User, first.signer)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	if got := runInSession(t, open, "id -u; echo $HOME; stat -f -c %T ~; ulimit -u >/dev/null; ls -A ~ | head -1"); !strings.HasPrefix(got, fmt.Sprintf("%d\n/home/%s\next2/ext3", o.UID, o.User)) {
		t.Errorf("inside: %s", got)
	}

	rotated := o
	rotated.PublicKeys, rotated.Revoked = []string{second.line}, []uint64{1}
	proof, err := carry(t.Context(), h, protocol.RotateKeys, rotated)
	if err != nil {
		t.Fatal(err)
	}
	if want := ssh.FingerprintSHA256(second.signer.PublicKey()); len(proof.Keys) != 1 || proof.Keys[0] != want || proof.SSHD == "" {
		t.Errorf("proof %+v, want key %s", proof, want)
	}
	attempts{
		"the old key":             {o.User, first.signer, false},
		"the new key":             {o.User, second.signer, true},
		"the certificate":         {o.User, mine, false},
		"what was revoked before": {o.User, revoked, false},
		"a new certificate":       {o.User, authority.certify(t, o.Principal, 8), true},
		"the other tenant's":      {other.User, authority.certify(t, other.Principal, 9), true},
	}.try(t, "rotated")
	if got := runInSession(t, open, "echo still here"); got != "still here" {
		t.Errorf("the open session printed %q", got)
	}

	if err := h.BlockLogin(t.Context(), o.User, o.UID); err != nil {
		t.Fatal(err)
	}
	attempts{
		"the new key":       {o.User, second.signer, false},
		"a new certificate": {o.User, authority.certify(t, o.Principal, 10), false},
		"the other tenant":  {other.User, authority.certify(t, other.Principal, 11), true},
	}.try(t, "blocked")
	if left, _ := os.ReadDir("/run/gpuaas/probe"); len(left) > 0 {
		t.Errorf("keys of probes are left: %v", left)
	}
}

// A tenant sees neither the shared folders of the host OS nor another tenant, and no
// service of another tenant answers.
func TestTenantsApart(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	one, two := paramsOf(t, h, 0), paramsOf(t, h, 1)
	a, b := newPair(t), newPair(t)
	one.PublicKeys, two.PublicKeys = []string{a.line}, []string{b.line}
	for _, o := range []protocol.AllocationParams{one, two} {
		if _, err := carry(t.Context(), h, protocol.ProvisionUser, o); err != nil {
			t.Fatal(err)
		}
	}
	mine, err := enter(t, one.User, a.signer)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := enter(t, two.User, b.signer)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = mine.Close(), theirs.Close() }()

	serve := `setsid python3 -c '
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 7000)); s.listen(5)
while True: c, _ = s.accept(); c.send(b"hello"); c.close()
' </dev/null >/dev/null 2>&1 & for i in $(seq 50); do sleep 0.05; ss -ltn | grep -q :7000 && break; done; echo secret >/tmp/mine; echo secret >/dev/shm/mine; chmod 644 /tmp/mine /dev/shm/mine; echo secret >~/x; chmod 755 ~; echo ok`
	if got := runInSession(t, mine, serve); got != "ok" {
		t.Fatal(got)
	}
	reach := `python3 -c '
import socket
s = socket.socket(); s.settimeout(1)
try: s.connect(("127.0.0.1", 7000)); print(s.recv(9))
except Exception as e: print(type(e).__name__)
'`
	for what, c := range map[string]struct{ got, want string }{
		"my own service":             {runInSession(t, mine, reach), "b'hello'"},
		"another tenant's service":   {runInSession(t, theirs, reach), "TimeoutError"},
		"my own processes":           {runInSession(t, mine, "pgrep -c python3"), "1"},
		"another tenant's processes": {runInSession(t, theirs, "pgrep -c python3; ls /proc | grep -c '^[0-9]*$' >/dev/null"), "0"},
		"another tenant's /tmp":      {runInSession(t, theirs, "cat /tmp/mine 2>&1 | grep -c 'No such file'"), "1"},
		"another tenant's /dev/shm":  {runInSession(t, theirs, "cat /dev/shm/mine 2>&1 | grep -c 'No such file'"), "1"},
		"my /tmp in another session": {runInSession(t, mine, "cat /tmp/mine /dev/shm/mine"), "secret\nsecret"},
		"a home that was opened":     {runInSession(t, theirs, "cat /home/"+one.User+"/x 2>&1 | grep -c denied"), "1"},
		"the disk of homes":          {runInSession(t, mine, "ls /var/lib/gpuaas/homes 2>&1 | grep -c denied"), "1"},
		"another's keys":             {runInSession(t, theirs, "cat /run/gpuaas/keys/"+one.User+" 2>&1 | grep -c denied"), "1"},
		"cron":                       {runInSession(t, mine, "crontab -l 2>&1 | grep -c 'not allowed'"), "1"},
		"at":                         {runInSession(t, mine, "echo true | at now 2>&1 | grep -ci 'permission'"), "1"},
		"a systemd of its own":       {runInSession(t, mine, "systemctl --user is-system-running 2>&1 | grep -ci failed"), "1"},
		"lingering":                  {runInSession(t, mine, "loginctl enable-linger 2>&1 | grep -ciE 'denied|interactive|access'"), "1"},
		"power":                      {runInSession(t, mine, "systemctl reboot --no-wall 2>&1 | grep -qiE 'denied|interactive|access' && echo 1"), "1"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
	if out := runInSession(t, mine, "fallocate -l 2G /tmp/full 2>&1; rm -f /tmp/full"); !strings.Contains(out, "No space left") {
		t.Errorf("a full /tmp is bounded by the home's size: %s", out)
	}
}
