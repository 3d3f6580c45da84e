package linux_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/linux/netrules"
	"github.com/gpuaas/gpuaas/protocol"
)

// exchange is the command of this binary that listens at or dials an address with the rights of its user.
const exchange = "exchange"

// exchangeWithin is enough on the node itself.
const exchangeWithin = 700 * time.Millisecond

// doExchange listens until its input ends, or dials once. It prints what it has reached or received.
func doExchange(args []string) error {
	if args[0] == "dial" {
		d := net.Dialer{Timeout: exchangeWithin}
		if len(args) > 3 { // from a port of its own
			from, err := net.ResolveUDPAddr(args[1], args[3])
			if err != nil {
				return err
			}
			d.LocalAddr = from
		}
		c, err := d.Dial(args[1], args[2])
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(exchangeWithin))
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err = c.Read(make([]byte, 1))
		return err
	}
	if strings.HasPrefix(args[1], "udp") {
		return echoPackets(args[1], args[2])
	}
	l, err := net.Listen(args[1], args[2])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); _ = l.Close() }()
	for {
		c, err := l.Accept()
		if err != nil {
			return nil
		}
		fmt.Println("received")
		_, _ = io.Copy(c, c)
		_ = c.Close()
	}
}

func echoPackets(network, address string) error {
	at, err := net.ResolveUDPAddr(network, address)
	if err != nil {
		return err
	}
	var c *net.UDPConn
	if at.IP.IsMulticast() {
		c, err = net.ListenMulticastUDP(network, nil, at)
	} else {
		c, err = net.ListenUDP(network, at)
	}
	if err != nil {
		return err
	}
	fmt.Println("ready")
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); _ = c.Close() }()
	packet := make([]byte, 10)
	for {
		n, from, err := c.ReadFromUDP(packet)
		if err != nil {
			return nil //nolint:nilerr // its input has ended
		}
		fmt.Println("received")
		_, _ = c.WriteToUDP(packet[:n], from)
	}
}

// as returns a command of this binary that runs as a user.
func as(ctx context.Context, t *testing.T, user string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if user == "root" {
		return exec.CommandContext(ctx, self, append([]string{exchange}, args...)...)
	}
	return exec.CommandContext(ctx, "runuser", append([]string{"-u", user, "--", self, exchange}, args...)...)
}

// reaches reports whether a packet of one user arrives at a socket of another, and whether a response returns.
func reaches(t *testing.T, from, to, network, listen, dial string, source ...string) (arrived, answered bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	server := as(ctx, t, to, "listen", network, listen)
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("%s does not listen at %s %s", to, network, listen)
	}
	answered = as(ctx, t, from, append([]string{"dial", network, dial}, source...)...).Run() == nil
	if strings.HasPrefix(network, "tcp") {
		arrived = waiting(t, dial)
	}
	_ = in.Close()
	arrived = lines.Scan() || arrived
	_ = server.Wait()
	return arrived, answered
}

// waiting reports whether the kernel has a connection to the port that a listener has not accepted, which is
// what remains of a request whose response was dropped.
func waiting(t *testing.T, address string) bool {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("bash", "-c", fmt.Sprintf(`cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == "03" && $2 ~ /:%04X$/'`, number(t, port))).Output()
	if err != nil {
		t.Fatal(err)
	}
	return len(out) > 0
}

func number(t *testing.T, text string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// ownAddress is an address of this node besides loopback.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Fatal("this node has only loopback")
	return ""
}

// TestINV72TenantsOfANodeAreApart tries every direction between tenants and the host OS, over every local address.
func TestINV72TenantsOfANodeAreApart(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	if err := os.WriteFile("/etc/resolv.conf", []byte("nameserver 127.0.0.53\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"127.0.0.1:3128", "127.0.0.1:3129"} {
		r, err := netrules.ParseReachable(text)
		if err != nil {
			t.Fatal(err)
		}
		h.Rules.Allow = append(h.Rules.Allow, r)
	}
	var names []string
	for gpu := range 2 {
		o := paramsOf(t, h, gpu)
		if _, err := carry(t.Context(), h, protocol.ProvisionUser, o); err != nil {
			t.Fatal(err)
		}
		names = append(names, o.User)
	}
	a, b, own := names[0], names[1], ownAddress(t)
	for port, c := range []struct {
		way, from, to, network, listen, dial string
		want                                 bool
	}{
		{"a tenant to itself", a, a, "tcp", "127.0.0.1", "127.0.0.1", true},
		{"a tenant to itself, version 6", a, a, "tcp", "::1", "::1", true},
		{"a tenant to itself, its node's address", a, a, "tcp", "0.0.0.0", own, true},
		{"a tenant to itself, datagrams", a, a, "udp", "127.0.0.1", "127.0.0.1", true},
		{"a tenant to itself, multicast", a, a, "udp4", "224.0.0.199", "224.0.0.199", true},
		{"the host OS to itself", "root", "root", "tcp", "127.0.0.1", "127.0.0.1", true},
		{"the host OS to a tenant", "root", a, "tcp", "127.0.0.1", "127.0.0.1", true},
		{"the host OS to a tenant, datagrams", "root", a, "udp", "127.0.0.1", "127.0.0.1", true},
		{"a tenant to another", a, b, "tcp", "127.0.0.1", "127.0.0.1", false},
		{"the other way", b, a, "tcp", "127.0.0.1", "127.0.0.1", false},
		{"a tenant to another, version 6", a, b, "tcp", "::1", "::1", false},
		{"a tenant to another, version 4 in 6", a, b, "tcp", "::", "127.0.0.1", false},
		{"a tenant to another, another loopback address", a, b, "tcp", "0.0.0.0", "127.9.9.9", false},
		{"a tenant to another, the node's address", a, b, "tcp", "0.0.0.0", own, false},
		{"a tenant to another, datagrams", a, b, "udp", "127.0.0.1", "127.0.0.1", false},
		{"a tenant to another, datagrams, version 6", a, b, "udp", "::1", "::1", false},
		{"a tenant to another, datagrams to the node's address", a, b, "udp", "0.0.0.0", own, false},
		{"a tenant to another, multicast", a, b, "udp4", "224.0.0.199", "224.0.0.199", false},
		{"a tenant to the host OS", a, "root", "tcp", "127.0.0.1", "127.0.0.1", false},
		{"a tenant to the host OS, version 6", a, "root", "tcp", "::1", "::1", false},
		{"a tenant to the host OS, the node's address", a, "root", "tcp", "0.0.0.0", own, false},
		{"a tenant to the host OS, datagrams", a, "root", "udp", "127.0.0.1", "127.0.0.1", false},
		{"a tenant to the host OS, multicast", a, "root", "udp4", "224.0.0.199", "224.0.0.199", false},
		{"the resolver of the node", a, "root", "udp", "127.0.0.53:53", "127.0.0.53:53", true},
		{"the resolver of the node, long responses", a, "root", "tcp", "127.0.0.53:53", "127.0.0.53:53", true},
		{"another service at port 53", a, "root", "udp", "127.0.0.54:53", "127.0.0.54:53", false},
		{"what the owner opens", a, "root", "tcp", "127.0.0.1:3128", "127.0.0.1:3128", true},
		{"a tenant at what the owner opens", a, b, "tcp", "127.0.0.1:3129", "127.0.0.1:3129", false},
	} {
		if !strings.Contains(c.listen, ":53") && !strings.Contains(c.listen, ":31") {
			c.listen, c.dial = net.JoinHostPort(c.listen, fmt.Sprint(20000+port)), net.JoinHostPort(c.dial, fmt.Sprint(20000+port))
		}
		arrived, answered := reaches(t, c.from, c.to, c.network, c.listen, c.dial)
		// A response to a multicast has another sender. Datagrams of a tenant to the host OS are no responses.
		answers := c.want && (c.from != "root" || c.to != a || c.network != "udp")
		if arrived != c.want || answered != answers && !strings.HasPrefix(c.dial, "224.") {
			t.Errorf("%s: %s to %s at %s %s: arrived %v, answered %v, want %v", c.way, c.from, c.to, c.network, c.dial, arrived, answered, c.want)
		}
	}
	// A datagram that a tenant sends to itself makes an entry in the table of connections. The port of its sender
	// belongs to the host OS later, and the other one sends a response to it.
	const first, second = "127.0.0.1:20900", "127.0.0.1:20901"
	_ = as(t.Context(), t, a, "dial", "udp", second, first).Run()
	if arrived, _ := reaches(t, a, "root", "udp", first, first, second); arrived {
		t.Error("a tenant reaches the host OS with a datagram in the form of a response")
	}
	// What a container engine does for a port that it publishes.
	if out, err := exec.Command("bash", "-euc", `ip link add gpuaas-c0 type veth peer name gpuaas-c1
		ip addr add 198.51.100.1/24 dev gpuaas-c0; ip link set gpuaas-c0 up; ip link set gpuaas-c1 up
		sysctl -q -w net.ipv4.conf.all.route_localnet=1
		nft add table ip gpuaastest
		nft 'add chain ip gpuaastest out { type nat hook output priority -100; }'
		nft add rule ip gpuaastest out ip daddr "{ `+own+`, 127.0.0.1 }" tcp dport 20990 dnat to 198.51.100.2:80`).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		_ = exec.Command("bash", "-c", "nft delete table ip gpuaastest; ip link delete gpuaas-c0").Run()
	})
	for _, c := range []struct{ way, address string }{
		{"a published port of a container", own + ":20990"},
		{"a published port of a container at loopback", "127.0.0.1:20990"},
		{"metadata", "169.254.169.254:80"},
		{"metadata of Amazon, version 6", "[fd00:ec2::254]:80"},
		{"Azure", "168.63.129.16:80"},
		{"Alibaba", "100.100.100.200:80"},
	} {
		began := time.Now()
		if err := as(t.Context(), t, a, "dial", "tcp", c.address).Run(); err == nil || time.Since(began) > exchangeWithin {
			t.Errorf("%s at %s is not rejected at once: %v after %s", c.way, c.address, err, time.Since(began))
		}
	}
}

// TestSharedFoldersArePrivate makes a file as a tenant in every folder of this node that all users may write to.
// None may exist outside of the session.
func TestSharedFoldersArePrivate(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	for _, dir := range []string{"/var/crash", "/var/metrics", "/run/screen"} { // of Ubuntu
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
	}
	o, key := paramsOf(t, h, 2), newPair(t)
	o.PublicKeys = []string{key.line}
	if _, err := carry(t.Context(), h, protocol.ProvisionUser, o); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("bash", "-c", `find / -xdev -type d -perm -0002 2>/dev/null; for d in /run /run/lock /dev /dev/shm /dev/mqueue; do
		find $d -xdev -path /dev/shm/gpuaas -prune -o -type d -perm -0002 -print; done | sort -u`).Output()
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(string(out))
	t.Log(dirs)
	if len(dirs) < 5 {
		t.Fatalf("%q is less than a node has", dirs)
	}
	script := "for d in " + strings.Join(dirs, " ") + "; do touch $d/planted-by-a-tenant 2>/dev/null; done; python3 -c 'import os; os.open(\"/dev/mqueue/planted-by-a-tenant\", os.O_CREAT|os.O_RDWR)' 2>/dev/null; true"
	c, err := enter(t, o.User, key.signer)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	runInSession(t, c, script)
	other, err := enter(t, o.User, key.signer)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if found := runInSession(t, other, "ls /run/screen"); !strings.Contains(found, "planted-by-a-tenant") {
		t.Errorf("another login of the tenant finds %q in /run/screen", found)
	}
	out, err = exec.Command("bash", "-c", `find `+strings.Join(dirs, " ")+` -xdev -path /dev/shm/gpuaas -prune -o -name planted-by-a-tenant -print 2>/dev/null; true`).Output()
	if err != nil {
		t.Fatal(err)
	}
	if found := strings.TrimSpace(string(out)); found != "" {
		t.Errorf("a tenant left files for other users:\n%s", found)
	}
}
