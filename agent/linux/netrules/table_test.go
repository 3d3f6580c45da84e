package netrules_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/netrules"
)

// resolve writes the list of name servers.
func resolve(t *testing.T, o *hostos.OS, text string) {
	t.Helper()
	file := o.Path("/etc/resolv.conf")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTableOfNoneAndOfTwo(t *testing.T) {
	t.Parallel()
	o, rules := &hostos.OS{Root: t.TempDir()}, netrules.Rules{}
	empty, err := rules.Table(o, nil)
	if err != nil || strings.Contains(empty, "elements = {  }") || strings.Contains(empty, "$") || !strings.Contains(empty, "169.254.0.0/16") || strings.Contains(empty, "jump learn") {
		t.Error(empty, err)
	}
	resolve(t, o, "# of DHCP\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\nnameserver 127.0.0.53\noptions edns0\nnameserver x;drop\n")
	rules.Deny = []netip.Prefix{netip.MustParsePrefix("10.1.2.3/8"), netip.MustParsePrefix("fd00::1/64"), netip.MustParsePrefix("::ffff:10.9.0.0/112")}
	for _, text := range []string{"10.2.0.0/16", "127.0.0.1:3128", "[::1]:3128", "10.2.0.0/16"} {
		r, err := netrules.ParseReachable(text)
		if err != nil {
			t.Fatal(err)
		}
		rules.Allow = append(rules.Allow, r)
	}
	rules.Server, rules.AgentUID = "https://10.7.7.7:8443", 990
	two, err := rules.Table(o, []netrules.Tenant{{UID: 200001}, {UID: 200002, Storage: []netip.AddrPort{netip.MustParseAddrPort("10.7.7.7:9000"), netip.MustParseAddrPort("[fd00::7]:443"), netip.MustParseAddrPort("[::ffff:127.0.0.1]:9000")}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"senders { type uid : mark; elements = { 200001 : 200001, 200002 : 200002 }", "denied4 { type ipv4_addr; flags interval; auto-merge; elements = { 10.0.0.0/8, 10.9.0.0/16 }", "fd00::/64",
		"names4 { type ipv4_addr; elements = { 127.0.0.53 }", "names6 { type ipv6_addr; elements = { fe80::1 }", "open4 { type ipv4_addr; flags interval; auto-merge; elements = { 10.2.0.0/16 }",
		"127.0.0.1/32 . 3128", "::1/128 . 3128", "10.7.7.7/32", `meta skuid 990 tcp dport 8443 oifname != "lo" jump learn`, "meta priority set 6770:7561",
		"ct state new add @connections { meta skuid ct count over 16384 } goto rejected", `oifname "lo" fib daddr type local accept`, "ct direction original ct status dnat goto rejected", "meta l4proto tcp reject with tcp reset",
		"tcp flags & (syn | ack) != syn ct direction reply goto exempt",
		"elements = { 200002 . 10.7.7.7 . 9000, 200002 . 127.0.0.1 . 9000 }", "elements = { 200002 . fd00::7 . 443 }",
	} {
		if !strings.Contains(two, part) {
			t.Errorf("%q is missing in\n%s", part, two)
		}
	}
	for _, bad := range []string{"", "x", "10.0.0.0/33", "127.0.0.1:0", "127.0.0.1:70000", "localhost:80", "10.0.0.0/8:80"} {
		if r, err := netrules.ParseReachable(bad); err == nil {
			t.Errorf("%q was read as %v", bad, r)
		}
	}
}

// What the kernel adds to the table is no drift, and everything else is.
func TestLearnedAddressesAreNoDrift(t *testing.T) {
	t.Parallel()
	const list = "table inet gpuaas {\n\tset connections {\n\t\ttype uid\n%[1]s\t}\n\tset plane4 {\n\t\ttype ipv4_addr\n%[1]s\t}\n\n\tset closed4 {\n\t\telements = { 168.63.129.16,\n\t\t\t     169.254.0.0/16 }\n\t}\n}\n"
	none := netrules.WithoutLearned(fmt.Appendf(nil, list, ""))
	for _, learned := range []string{"\t\telements = { 200001 ct count over 16384,\n\t\t\t     200002 ct count over 16384 }\n", "\t\telements = { 10.1.1.1 timeout 1d expires 23h }\n", "\t\telements = { 10.1.1.1 expires 23h,\n\t\t\t     10.1.1.2 expires 1h }\n"} {
		if got := netrules.WithoutLearned(fmt.Appendf(nil, list, learned)); string(got) != string(none) {
			t.Errorf("%q became\n%s", learned, got)
		}
	}
	if !strings.Contains(string(none), "169.254.0.0/16 }") {
		t.Errorf("too much is removed:\n%s", none)
	}
}

// FuzzResolvers: only addresses of the file reach the rules of the packet filter.
func FuzzResolvers(f *testing.F) {
	f.Add("nameserver 127.0.0.53\nnameserver ::1\n")
	f.Add("nameserver fe80::1%eth0\nnameserver 1.1.1.1}; add rule inet x\n")
	const plain = "0123456789abcdef.:,{}= \n"
	f.Fuzz(func(t *testing.T, text string) {
		o := &hostos.OS{Root: t.TempDir()}
		resolve(t, o, text)
		table, err := netrules.Rules{}.Table(o, nil)
		if err != nil {
			return
		}
		for line := range strings.Lines(table) {
			if _, list, ok := strings.Cut(line, "elements"); ok && strings.Contains(line, "set names") && strings.Trim(list, plain) != "" {
				t.Errorf("%q became %s", text, line)
			}
		}
	})
}

// FuzzReachable: an exception is exactly the network that it names.
func FuzzReachable(f *testing.F) {
	for _, text := range []string{"10.0.0.0/8", "127.0.0.1:3128", "[::1]:80", "::ffff:10.0.0.0/104", "fe80::1%eth0", "1.2.3.4"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := netrules.ParseReachable(text)
		if err == nil && (!r.Network.IsValid() || r.Network.Addr().Zone() != "" || r.Network != r.Network.Masked()) {
			t.Errorf("%q was read as %+v", text, r)
		}
	})
}

func FuzzLearned(f *testing.F) {
	f.Add([]byte("table inet gpuaas {\n\tset plane4 {\n\t\telements = { 10.1.1.1 expires 1h }\n\t}\n\tset closed4 {\n\t}\n}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if rest := netrules.WithoutLearned(text); len(rest) > len(text) {
			t.Errorf("%q became %q", text, rest)
		}
	})
}
