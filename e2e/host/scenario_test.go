//go:build e2e

package host

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/e2e/rig"
)

// scenario is one container that becomes a node of one server.
type scenario struct {
	*server

	host *rig.Container
	name string
	key  ssh.Signer
	made int
}

// patience limits each wait on a computer that runs other tests at the same time. Without them a wait
// needs a tenth of it.
const patience = 2 * time.Minute

type allocation struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Login  string `json:"login"`
	Reason string `json:"reason"`
}

// begin boots a container, starts a server that waits for it, and installs the agent with the command line
// that an operator gets.
func begin(t *testing.T) *scenario {
	t.Helper()
	h := rig.New(t, rig.Options{Profile: "l40s-4", Hostname: "gpu-a"})
	_ = binary(t, "gpuaas-agent") // the server serves the one in its folder
	s := &scenario{server: startServer(t, h.Gateway()), host: h, name: "gpu-a"}
	line := s.cli("default-admin", "node", "add", s.name, "--sku", "l40s", "--region", "eu-dev-1", "--gpus", "4", "--root", "--address", h.Addr())
	line = line[strings.Index(line, "curl "):]
	began := time.Now()
	t.Log(h.Sh(t, "cd /root; export GPUAAS_AGENT_SCRUB="+rig.Scrub+"\n"+strings.TrimSpace(line)+" 2>&1"))
	t.Logf("a node after %s", time.Since(began).Round(time.Millisecond))

	s.direct("allowed") // the test logs in from outside
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	s.key, err = ssh.NewSignerFromKey(private)
	must(t, err)
	must(t, s.call("default", "POST", "/api/v1/ssh-keys", map[string]any{"name": "story", "public_key": strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.key.PublicKey())))}, nil))
	return s
}

func (s *scenario) create(gpus int) allocation {
	s.t.Helper()
	s.made++
	a := allocation{}
	defer func() {
		if a.ID == "" {
			s.t.Logf("the node:\n%s\n%s", s.cli("default-admin", "describe", "node/"+s.name), s.host.Sh(s.t, "gpuaas-agent status 2>&1; journalctl --no-pager -n 40 -u 'gpuaas-agent*' 2>&1"))
		}
	}()
	s.sold(map[string]any{"sku": "l40s", "gpus": gpus, "name": fmt.Sprintf("story-%d", s.made)}, &a)
	return a
}

// sold repeats a request until its slots are for sale.
func (s *scenario) sold(request map[string]any, a *allocation) {
	s.t.Helper()
	within(s.t, patience, "slots are for sale", func() error {
		err := s.call("default", "POST", "/api/v1/allocations", request, a)
		if err != nil {
			time.Sleep(time.Second) // the rate of requests has a limit
		}
		return err
	})
}

func (s *scenario) release(a allocation) {
	s.t.Helper()
	within(s.t, patience, "a release is accepted", func() error {
		return s.call("default", "POST", "/api/v1/allocations/"+a.ID+"/release", map[string]any{}, nil)
	})
}

func (s *scenario) now(a allocation) (now allocation, err error) {
	return now, s.call("default", "GET", "/api/v1/allocations/"+a.ID, nil, &now)
}

func (s *scenario) becomes(a allocation, status string) {
	s.t.Helper()
	began := time.Now()
	within(s.t, patience, a.Name+" becomes "+status, func() error {
		now, err := s.now(a)
		if err == nil && now.Status != status {
			err = fmt.Errorf("%+v", now)
		}
		return err
	})
	s.t.Logf("%s is %s after %s", a.Name, status, time.Since(began).Round(10*time.Millisecond))
}

// direct sets the policy for logins from outside.
func (s *scenario) direct(value string) {
	s.t.Helper()
	s.cli("default-admin", "policy", "set", "terminal.direct_login", value)
}

// follows changes the policy while an allocation is active: its node denies logins from outside, and accepts them again.
func (s *scenario) follows(a allocation) {
	s.t.Helper()
	for _, c := range []struct {
		value string
		opens bool
	}{{"denied", false}, {"allowed", true}} {
		s.direct(c.value)
		began := time.Now()
		within(s.t, patience, "logins from outside are "+c.value, func() error {
			client, err := s.login(a)
			if err == nil {
				client.Close()
			}
			if (err == nil) != c.opens {
				return fmt.Errorf("a login opens: %v", err == nil)
			}
			return nil
		})
		s.t.Logf("logins from outside are %s after %s", c.value, time.Since(began).Round(10*time.Millisecond))
	}
}

// login is a tenant's connection, from outside, to the node's sshd.
func (s *scenario) login(a allocation) (*ssh.Client, error) {
	return ssh.Dial("tcp", net.JoinHostPort(s.host.Addr(), "22"), &ssh.ClientConfig{
		User: a.Login, Auth: []ssh.AuthMethod{ssh.PublicKeys(s.key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: 10 * time.Second,
	})
}

// awaitLogin waits until the tenant can log in after the node has booted. An allocation that was active
// before stays active while the agent restores the login keys, which a boot removes.
func (s *scenario) awaitLogin(a allocation) {
	s.t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		var c *ssh.Client
		if c, err = s.login(a); err == nil {
			_ = c.Close()
			return
		}
	}
	s.t.Fatalf("logging in as %s after the boot: %v", a.Login, err)
}

func (s *scenario) as(a allocation, command string) string {
	s.t.Helper()
	c, err := s.login(a)
	must(s.t, err)
	defer c.Close()
	session, err := c.NewSession()
	must(s.t, err)
	out, err := session.CombinedOutput(command)
	if err != nil {
		s.t.Fatalf("%s as %s: %v\n%s", command, a.Login, err, out)
	}
	return strings.TrimSpace(string(out))
}

// opens prints the result of opening each device file as the tenant.
const opens = `for i in 0 1 2 3; do python3 -c '
import os, errno, sys
try: os.open(sys.argv[1], os.O_RDWR); print("open")
except OSError as e: print(errno.errorcode[e.errno])' /dev/nvidia$i; done`

// left returns the traces of the tenant on the node, read without our own code.
func (s *scenario) left(a allocation) string {
	uid := strings.TrimPrefix(a.Login, "u")
	return s.host.Sh(s.t, `find / -xdev \( -uid $1 -o -gid $1 \) -print 2>/dev/null | head; for d in /tmp /run /dev/shm /var/tmp; do find $d -uid $1 2>/dev/null | head -3; done
		getent passwd $1 $2 || true; getent group $2 || true; pgrep -lu $1 || true; grep -r "$2\|user-$1" /etc/ssh /etc/gpuaas /etc/systemd /run/systemd/system /run/gpuaas 2>/dev/null || true
		grep -E "homes|/home/$2" /proc/mounts || true; ls /var/lib/gpuaas/homes 2>/dev/null || true; nft list ruleset | sed "s/[0-9]*-[0-9]*//g" | grep -w $1 || true; ls -d /sys/fs/cgroup/user.slice/user-$1.slice 2>/dev/null || true`, uid, a.Login)
}

func TestNode(t *testing.T) {
	t.Parallel()
	s := begin(t)

	a := s.create(1)
	s.becomes(a, "active")
	a, err := s.now(a)
	must(t, err)
	if out := s.as(a, opens); strings.Count(out, "ENXIO") != 1 || strings.Count(out, "EPERM") != 3 {
		t.Errorf("of four GPUs one is ours, and the devices answer\n%s", out)
	}
	if out := s.as(a, `id -un; id -u; cat /proc/self/cgroup; ls /home /var/lib/gpuaas/journal 2>&1; sudo -n true 2>&1; echo`); !strings.Contains(out, "/user.slice/user-"+strings.TrimPrefix(a.Login, "u")) {
		t.Error(out)
	}
	s.relayed(a)
	s.follows(a)
	s.restarts(a)
	s.partition(a)
	s.becomes(a, "released")
	if found := s.left(a); found != "" {
		t.Errorf("left on the node:\n%s", found)
	}
	if c, err := s.login(a); err == nil {
		c.Close()
		t.Error("the tenant still gets in")
	}
	s.lateDriver()
	s.plugs()
}

// restarts restarts and kills the network process and the helper. Neither disturbs a terminal session.
func (s *scenario) restarts(a allocation) {
	s.t.Helper()
	c, err := s.login(a)
	must(s.t, err)
	defer c.Close()
	session, err := c.NewSession()
	must(s.t, err)
	out, err := session.StdoutPipe()
	must(s.t, err)
	must(s.t, session.Start(`i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done`))
	counted := make(chan error, 1)
	last := 0
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if n, err := strconv.Atoi(lines.Text()); err != nil || n != last+1 {
				counted <- fmt.Errorf("after %d came %q", last, lines.Text())
				return
			}
			last++
		}
		counted <- io.EOF
	}()
	s.host.Sh(s.t, `for i in 1 2 3 4 5 6 7 8; do systemctl reset-failed gpuaas-agent-helper gpuaas-agent 2>/dev/null || true
		systemctl restart gpuaas-agent-helper; systemctl restart gpuaas-agent
		systemctl kill --signal=KILL gpuaas-agent-helper; systemctl kill --signal=KILL gpuaas-agent; sleep 0.1; done
		for i in $(seq 100); do systemctl is-active -q gpuaas-agent gpuaas-agent-helper && exit 0; sleep 0.2; done; exit 1`)
	select {
	case err := <-counted:
		s.t.Errorf("a session ended while the agent was restarted: %v", err)
	default:
	}
	must(s.t, session.Signal(ssh.SIGKILL))
	c.Close()
	if err := <-counted; !errors.Is(err, io.EOF) {
		s.t.Error(err)
	}
	s.t.Logf("a session counted to %d while each half was restarted 8 times and killed 8 times", last)
}

// partition requests the release of an allocation whose node is partitioned, in one direction and then in
// both. Nothing is sold before the node has proved it clean.
func (s *scenario) partition(a allocation) {
	s.t.Helper()
	port := s.ready.NodeURL[strings.LastIndex(s.ready.NodeURL, ":")+1:]
	cut := func(rules ...string) {
		s.host.Sh(s.t, `nft add table inet cut; nft add chain inet cut in '{ type filter hook input priority 0; }'; nft add chain inet cut out '{ type filter hook output priority 0; }'
			for rule in "$@"; do nft add rule inet cut $rule; done`, rules...)
	}
	unsold := func(while string) {
		for range 30 {
			if now, err := s.now(a); err != nil || now.Status != "releasing" {
				s.t.Errorf("%s: %+v, %v", while, now, err)
				return
			}
			if err := s.call("default", "POST", "/api/v1/allocations", map[string]any{"sku": "l40s", "gpus": 4, "name": "early"}, nil); err == nil {
				s.t.Errorf("%s: a slot was sold that was not cleaned", while)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	cut("in tcp sport " + port + " drop") // it speaks, and hears nothing
	s.release(a)
	unsold("one way")
	s.host.Sh(s.t, `nft delete table inet cut`)
	cut("in tcp sport "+port+" drop", "out tcp dport "+port+" drop")
	if now, err := s.now(a); err == nil && now.Status == "releasing" {
		unsold("both ways")
	}
	s.host.Sh(s.t, `nft delete table inet cut`)
}

// lateDriver pulls the plug in a provision. The agent starts before the devices are
// there, and fails until they are: that must not use up all attempts.
func (s *scenario) lateDriver() {
	s.t.Helper()
	s.host.DevicesAfter = 5 * time.Second
	a := s.create(1)
	s.host.Kill()
	must(s.t, s.host.Boot(s.t.Context()))
	s.becomes(a, "active")
	s.host.DevicesAfter = 0
	s.release(a)
	s.becomes(a, "released")
}

// plugs pulls the plug at moments that chance chooses, in provisions and releases.
func (s *scenario) plugs() {
	s.t.Helper()
	for round := range 3 {
		a := s.create(2)
		s.pull(round)
		s.becomes(a, "active")
		a, err := s.now(a)
		must(s.t, err)
		s.awaitLogin(a)
		if out := s.as(a, `id -un`); out != a.Login {
			s.t.Errorf("after the plug was pulled %s is %s", a.Login, out)
		}
		s.release(a)
		s.pull(round)
		s.becomes(a, "released")
		if found := s.left(a); found != "" {
			s.t.Errorf("left after the plug was pulled in round %d:\n%s", round, found)
		}
	}
}

func (s *scenario) pull(round int) {
	s.t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(2000))
	must(s.t, err)
	d := time.Duration(n.Int64()) * time.Millisecond
	time.Sleep(d)
	s.host.Kill()
	s.t.Logf("round %d: plug pulled after %s", round, d)
	must(s.t, s.host.Boot(s.t.Context()))
}
