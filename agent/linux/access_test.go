package linux_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/linux"
	"github.com/gpuaas/gpuaas/protocol"
)

// sshd itself shows what the configuration means for an account, by its groups and its source. The test replaces the
// groups of tenants by groups of the account that runs it.
func TestTheConfigurationAsSSHDReadsIt(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("sshd reads its configuration as root only")
	}
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		t.Skip("sshd is not installed")
	}
	if _, err := os.Stat("/run/sshd"); err != nil {
		t.Skip("sshd has no /run/sshd, which its service makes")
	}
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct {
		group, direct, forward, address string
		denied                          bool
		forwarding                      string
	}{
		{"root", "nogroup", "nogroup", "127.0.0.1", false, "no"},
		{"root", "nogroup", "nogroup", "127.8.9.1", false, "no"},
		{"root", "nogroup", "nogroup", "::1", false, "no"},
		{"root", "nogroup", "nogroup", "192.0.2.1", true, "no"},
		{"root", "nogroup", "nogroup", "128.0.0.1", true, "no"},
		{"root", "nogroup", "nogroup", "2001:db8::1", true, "no"},
		{"root", "root", "nogroup", "192.0.2.1", false, "no"},
		{"root", "nogroup", "root", "127.0.0.1", false, "local"},
		{"root", "root", "root", "192.0.2.1", false, "local"},
		{"nogroup", "nogroup", "nogroup", "192.0.2.1", false, "yes"}, // no tenant
	} {
		text := strings.NewReplacer(
			"Match Group gpuaas,!gpuaas-direct", "Match Group "+c.group+",!"+c.direct, "DenyGroups gpuaas", "DenyGroups "+c.group,
			"Match Group gpuaas-forward", "Match Group "+c.forward, "Match Group gpuaas\n", "Match Group "+c.group+"\n",
		).Replace(linux.SSHDConf)
		if c.forwarding == "local" { // a host OS that is hardened
			text += "Match all\nDisableForwarding yes\nPermitOpen none\n"
		}
		file := filepath.Join(t.TempDir(), "sshd_config")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "/usr/sbin/sshd", "-t", "-f", file, "-h", key).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		out, err := exec.CommandContext(t.Context(), "/usr/sbin/sshd", "-T", "-f", file, "-h", key, "-C", "user=root,host=x,laddr=127.0.0.1,addr="+c.address).Output()
		if err != nil {
			t.Fatal(err)
		}
		have := linux.ParseEffective(out)
		if have["denygroups"] != map[bool]string{true: c.group}[c.denied] || have["allowtcpforwarding"] != c.forwarding || have["allowstreamlocalforwarding"] != c.forwarding {
			t.Errorf("%+v: denied %q, TCP %s, sockets %s", c, have["denygroups"], have["allowtcpforwarding"], have["allowstreamlocalforwarding"])
		}
		if c.forwarding == "local" && (have["disableforwarding"] != "no" || have["permitopen"] != "any") {
			t.Errorf("%+v: %v", c, have)
		}
		if c.group == "root" && (have["allowagentforwarding"] != "no" || have["x11forwarding"] != "no" || have["permittunnel"] != "no" || have["gatewayports"] != "no") {
			t.Errorf("%+v: %v", c, have)
		}
	}
}

// Where direct logins are denied, an account logs in from loopback only. With forwarding its connection reaches its own
// ports, and none of other tenants, of the host OS or at the metadata address. A rotation changes both.
func TestLoginsFollowTheRules(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	own := ownAddress(t)
	o, other := paramsOf(t, h, 0), paramsOf(t, h, 1)
	mine, theirs := newPair(t), newPair(t)
	o.PublicKeys, other.PublicKeys = []string{mine.line}, []string{theirs.line}
	o.Access = protocol.Access{LoginFrom: protocol.FromLoopback, Forwarding: protocol.ForwardLocal}
	provision := func(o protocol.AllocationParams) *protocol.Proof {
		t.Helper()
		proof, err := carry(t.Context(), h, protocol.ProvisionUser, o)
		if err != nil {
			t.Fatal(err)
		}
		return proof
	}
	probed := func(proof *protocol.Proof, want map[string]string) {
		t.Helper()
		seen := map[string]string{}
		for _, p := range proof.Probes {
			seen[p.Name] = p.Got
		}
		for name, got := range want {
			if seen[name] != got {
				t.Errorf("the probe of %q found %q, want %q, in %v", name, seen[name], got, seen)
			}
		}
	}
	probed(provision(other), map[string]string{"forward:own port": "EPERM", "forward:127.0.0.1:22": "EPERM", "sshd:allowtcpforwarding": "no"})
	serve := func(user pair, name string, port int) {
		t.Helper()
		c, err := enter(t, name, user.signer)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		out := runInSession(t, c, fmt.Sprintf(`setsid python3 -c '
import socket
s = socket.socket(socket.AF_INET6); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("::", %d)); s.listen(5)
while True: c, _ = s.accept(); c.close()
' </dev/null >/dev/null 2>&1 & for i in $(seq 100); do sleep 0.05; ss -ltn | grep -q :%[1]d && echo ok && break; done`, port))
		if out != "ok" {
			t.Fatalf("no server at %d: %s", port, out)
		}
	}
	serve(theirs, other.User, 7001)
	probed(provision(o), map[string]string{
		"forward:own port": "ok", "forward:127.0.0.1:22": "silent", "forward:169.254.169.254:80": "refused", "forward:[::1]:22": "silent",
		"forward:2 of others": "silent", "dial:2 of others": "silent", "forward:3 of others": "silent", "sshd:allowtcpforwarding": "local", "sshd:allowstreamlocalforwarding": "local", "sshd:logins from elsewhere are denied to": linux.Group,
	})
	serve(mine, o.User, 7002)

	outside := func() error {
		c, err := ssh.Dial("tcp", own+":22", &ssh.ClientConfig{
			User: o.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(mine.signer)}, Timeout: 10 * time.Second, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		})
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	if err := outside(); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
		t.Errorf("a login from another address: %v", err)
	}
	client, err := enter(t, o.User, mine.signer)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for address, opens := range map[string]bool{"127.0.0.1:7002": true, "127.0.0.1:7001": false, "127.0.0.1:22": false, own + ":22": false, "169.254.169.254:80": false} {
		reached := make(chan error, 1)
		go func() {
			c, err := client.Dial("tcp", address)
			if err == nil {
				_ = c.Close()
			}
			reached <- err
		}()
		select {
		case err := <-reached:
			if (err == nil) != opens {
				t.Errorf("a forward to %s: %v", address, err)
			}
		case <-time.After(3 * time.Second):
			if opens {
				t.Errorf("a forward to %s does not open", address)
			}
		}
	}
	if _, err := client.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("a port of the node was forwarded to the client")
	}

	o.Access = protocol.Access{}
	if _, err := carry(t.Context(), h, protocol.RotateKeys, o); err != nil {
		t.Fatal(err)
	}
	if err := outside(); err != nil {
		t.Errorf("a direct login after the rotation: %v", err)
	}
	again, err := enter(t, o.User, mine.signer)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.Dial("tcp", "127.0.0.1:7002"); err == nil || !strings.Contains(err.Error(), "prohibited") {
		t.Errorf("forwarding after the rotation: %v", err)
	}
}
