// Package netrules makes the table of nftables that restricts tenants. It changes nothing.
package netrules

import (
	"bytes"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/receiver"
)

// Reachable is a destination that the owner of the node opens for tenants.
type Reachable struct {
	Network netip.Prefix
	Port    uint16 // 0: all ports and protocols
}

// ParseReachable reads a network such as 10.1.0.0/16, or an address with a port such as 127.0.0.1:3128.
func ParseReachable(text string) (r Reachable, err error) {
	if a, err := netip.ParseAddrPort(text); err == nil && a.Port() > 0 {
		return Reachable{netip.PrefixFrom(a.Addr().Unmap(), a.Addr().Unmap().BitLen()), a.Port()}, nil
	}
	if a, err := netip.ParseAddr(text); err == nil {
		return Reachable{Network: netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())}, nil
	}
	if r.Network, err = netip.ParsePrefix(text); err != nil {
		return r, fmt.Errorf("%q is no address with a port such as 127.0.0.1:3128, and no network such as 10.1.0.0/16", text)
	}
	r.Network = unmapped(r.Network)
	return r, nil
}

// Rules have the configuration of the owner of the node.
type Rules struct {
	// Deny are networks of the site, in addition to what is always closed. Allow is what the owner opens of both.
	Deny  []netip.Prefix
	Allow []Reachable
	// Server is the URL of the node API, and AgentUID the uid of the process that connects to it: no tenant
	// reaches its address. Both may be empty.
	Server   string
	AgentUID int
}

// Opens reports whether the owner of the node opens an address.
func (r Rules) Opens(at netip.AddrPort) bool {
	return slices.ContainsFunc(r.Allow, func(to Reachable) bool {
		return to.Network.Contains(at.Addr()) && (to.Port == 0 || to.Port == at.Port())
	})
}

// Tenant is a uid with rules, and the addresses of the storage that it has mounts of.
type Tenant struct {
	UID     int
	Storage []netip.AddrPort
}

// Closed reports whether an address is closed to every tenant by default.
func Closed(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(closedNetworks(), func(n netip.Prefix) bool { return n.Contains(a) })
}

// closedNetworks lists where a node has services that trust everybody who reaches them: its own links, and the
// metadata of the clouds, with the form that a translating router gives to an address of version 4.
func closedNetworks() []netip.Prefix {
	var list []netip.Prefix
	for _, text := range []string{
		"169.254.0.0/16", "64:ff9b::a9fe:0/112", "fe80::/10",
		"168.63.129.16/32", "64:ff9b::a83f:8110/128", // Azure
		"100.100.100.200/32", "64:ff9b::6464:64c8/128", // Alibaba
		"fd00:ec2::/32",          // Amazon: metadata, resolver, time
		"fd20:ce::254/128",       // Google
		"fd00:c1::a9fe:a9fe/128", // Oracle
		"fd00:42::42/128",        // Scaleway
	} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// resolvers lists the name servers that programs of this node use.
func resolvers(o *hostos.OS) (found []netip.Addr, err error) {
	err = o.Lines("/etc/resolv.conf", func(line string) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" || len(found) == maxResolvers {
			return
		}
		if a, err := netip.ParseAddr(f[1]); err == nil && !slices.Contains(found, a.Unmap().WithZone("")) {
			found = append(found, a.Unmap().WithZone(""))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reading the name servers of the node: %w", err)
	}
	return found, nil
}

// maxResolvers exceeds what the C library reads, which is three.
const maxResolvers = 8

// connectionsOfOne limits the open connections of a tenant. Eight tenants use half of the table that the kernel makes
// by default on a computer with more than 4 GiB of memory.
const connectionsOfOne = 16384

// serverPort returns the address of the node API if the configuration has a number, and its port.
func (r Rules) serverPort() (address netip.Addr, port uint16) {
	u, err := url.Parse(r.Server)
	if err != nil || u.Host == "" {
		return address, 0
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		n = 443
	}
	if address, err = netip.ParseAddr(u.Hostname()); err != nil {
		address = netip.Addr{}
	}
	return address.Unmap().WithZone(""), uint16(n)
}

// Table returns the rules that restrict tenants, by the uid of the socket of a packet.
//
// A packet that leaves the node is rejected by its destination. Explicit configuration applies before what is
// closed by default, and the storage of the mounts of a tenant before both: it may be on this computer, or next to the
// node API. The kernel adds the addresses of the node API to the table when the network process of the
// agent connects to them.
//
// A packet that stays on the node is marked with its sender, and package receiver compares the mark with the owner
// of the socket that receives it.
func (r Rules) Table(o *hostos.OS, tenants []Tenant) (string, error) {
	resolvers, err := resolvers(o)
	if err != nil {
		return "", err
	}
	closed := closedNetworks()
	server, port := r.serverPort()
	if server.IsValid() && !server.IsLoopback() {
		closed = append(closed, netip.PrefixFrom(server, server.BitLen()))
	}
	var open, ports, names [2][]string
	for _, to := range r.Allow {
		if n := unmapped(to.Network); to.Port == 0 {
			add(&open, n, n.String())
		} else {
			add(&ports, n, fmt.Sprintf("%s . %d", n, to.Port))
		}
	}
	for _, a := range resolvers {
		add(&names, netip.PrefixFrom(a, a.BitLen()), a.String())
	}
	var senders []string
	var storage [2][]string
	for _, t := range tenants {
		senders = append(senders, fmt.Sprintf("%d : %[1]d", t.UID))
		for _, to := range t.Storage {
			a := to.Addr().Unmap().WithZone("")
			add(&storage, netip.PrefixFrom(a, a.BitLen()), fmt.Sprintf("%d . %s . %d", t.UID, a, to.Port()))
		}
	}
	learn := ""
	if r.AgentUID > 0 && port > 0 {
		learn = fmt.Sprintf("meta skuid %d tcp dport %d oifname != \"lo\" jump learn", r.AgentUID, port)
	}
	return strings.NewReplacer(
		"$TENANTS", fmt.Sprintf("%d-%d", hostos.MinUID, hostos.MaxUID), "$SENDERS", elements(senders), "$LEARN", learn,
		"$DENIED4", elements(networks(r.Deny)[0]), "$DENIED6", elements(networks(r.Deny)[1]),
		"$CLOSED4", elements(networks(closed)[0]), "$CLOSED6", elements(networks(closed)[1]),
		"$OPEN4", elements(open[0]), "$OPEN6", elements(open[1]), "$PORTS4", elements(ports[0]), "$PORTS6", elements(ports[1]),
		"$STORAGE4", elements(storage[0]), "$STORAGE6", elements(storage[1]), "$NAMES4", elements(names[0]), "$NAMES6", elements(names[1]),
		"$PRIORITY", fmt.Sprintf("%x:%x", receiver.Priority>>16, receiver.Priority&0xffff),
		"$CONNECTIONS", strconv.Itoa(connectionsOfOne), "$UNKNOWN", fmt.Sprintf("%#x", receiver.Unknown), "$EXEMPT", fmt.Sprintf("%#x", receiver.Host),
	).Replace(tableText), nil
}

// add sorts an element by the version of its network: 4, then 6.
func add(lists *[2][]string, n netip.Prefix, element string) {
	if n.Addr().Is4() {
		lists[0] = append(lists[0], element)
	} else {
		lists[1] = append(lists[1], element)
	}
}

func networks(list []netip.Prefix) (lists [2][]string) {
	for _, n := range list {
		if n = unmapped(n); n.IsValid() {
			add(&lists, n, n.String())
		}
	}
	return lists
}

// unmapped returns the network of version 4 that a network of version 6 contains.
func unmapped(n netip.Prefix) netip.Prefix {
	const mapped = 96 // bits of ::ffff:0:0
	if n.Addr().Is4In6() && n.Bits() >= mapped {
		n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-mapped)
	}
	return n.Masked()
}

func elements(list []string) string {
	if len(list) == 0 {
		return ""
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return "elements = { " + strings.Join(list, ", ") + " }"
}

// WithoutLearned removes the addresses and the counted users that the kernel has added to the table since it was put.
func WithoutLearned(list []byte) (rest []byte) {
	within, skip := false, false
	for line := range bytes.Lines(list) {
		text := strings.TrimSpace(string(line))
		switch {
		case strings.HasPrefix(text, "set "):
			within = strings.HasPrefix(text, "set plane") || strings.HasPrefix(text, "set connections ")
		case within && strings.HasPrefix(text, "elements = {"):
			skip = true
		}
		if !skip {
			rest = append(rest, line...)
		}
		if strings.HasSuffix(text, "}") {
			skip = false
		}
	}
	return rest
}

// A packet of a socket that no process has open has no uid. It belongs to a connection whose first
// packets had one.
//
// A response to a TCP connection that the host OS has opened to a tenant may return. It has an ACK: a SYN in the
// direction of responses would open a second connection to the port that the first one came from. Datagrams of a
// tenant are no responses: it could make the entry in the table of connections itself, at a port that the host OS
// uses later.
//
// An address that another program of the node translates, as a container engine does for a published port, is on this
// node, too. Such a packet still has the interface lo, and leaves the node.
//
// The kernel has one table of connections for all users. Closed ones that it has not discarded yet do not count.
//
// A TCP connection is rejected with a reset. The kernel limits the ICMP errors of all users together, so that one tenant
// could make the connections of others time out.
const tableText = `table inet gpuaas
delete table inet gpuaas
table inet gpuaas {
	map senders { type uid : mark; $SENDERS }
	set open4 { type ipv4_addr; flags interval; auto-merge; $OPEN4 }
	set open6 { type ipv6_addr; flags interval; auto-merge; $OPEN6 }
	set ports4 { type ipv4_addr . inet_service; flags interval; $PORTS4 }
	set ports6 { type ipv6_addr . inet_service; flags interval; $PORTS6 }
	set storage4 { type uid . ipv4_addr . inet_service; $STORAGE4 }
	set storage6 { type uid . ipv6_addr . inet_service; $STORAGE6 }
	set names4 { type ipv4_addr; $NAMES4 }
	set names6 { type ipv6_addr; $NAMES6 }
	set denied4 { type ipv4_addr; flags interval; auto-merge; $DENIED4 }
	set denied6 { type ipv6_addr; flags interval; auto-merge; $DENIED6 }
	set closed4 { type ipv4_addr; flags interval; auto-merge; $CLOSED4 }
	set closed6 { type ipv6_addr; flags interval; auto-merge; $CLOSED6 }
	set connections { type uid; size 65535; flags dynamic; }
	set plane4 { type ipv4_addr; size 256; flags dynamic,timeout; timeout 1d; }
	set plane6 { type ipv6_addr; size 256; flags dynamic,timeout; timeout 1d; }
	chain output {
		type filter hook output priority filter; policy accept;
		$LEARN
		meta skuid $TENANTS goto tenant
	}
	chain tenant {
		ct state new add @connections { meta skuid ct count over $CONNECTIONS } goto rejected
		oifname "lo" jump stays
		oifname "lo" fib daddr type local accept
		fib daddr type { multicast, broadcast } jump stays
		meta skuid . ip daddr . tcp dport @storage4 accept
		meta skuid . ip6 daddr . tcp dport @storage6 accept
		ip daddr @open4 accept
		ip6 daddr @open6 accept
		meta l4proto { tcp, udp } ip daddr . th dport @ports4 accept
		meta l4proto { tcp, udp } ip6 daddr . th dport @ports6 accept
		ip daddr @denied4 goto rejected
		ip6 daddr @denied6 goto rejected
		meta l4proto { tcp, udp } th dport 53 ip daddr @names4 accept
		meta l4proto { tcp, udp } th dport 53 ip6 daddr @names6 accept
		ip daddr @closed4 goto rejected
		ip6 daddr @closed6 goto rejected
		ip daddr @plane4 goto rejected
		ip6 daddr @plane6 goto rejected
		ct direction original ct status dnat goto rejected
	}
	chain rejected {
		meta l4proto tcp reject with tcp reset
		reject
	}
	chain stays {
		meta priority set $PRIORITY
		meta mark set $UNKNOWN
		meta mark set meta skuid map @senders
		tcp flags & (syn | ack) != syn ct direction reply goto exempt
		meta skuid . ip daddr . tcp dport @storage4 goto exempt
		meta skuid . ip6 daddr . tcp dport @storage6 goto exempt
		ip daddr @open4 goto exempt
		ip6 daddr @open6 goto exempt
		meta l4proto { tcp, udp } ip daddr . th dport @ports4 goto exempt
		meta l4proto { tcp, udp } ip6 daddr . th dport @ports6 goto exempt
		meta l4proto { tcp, udp } th dport 53 ip daddr @names4 goto exempt
		meta l4proto { tcp, udp } th dport 53 ip6 daddr @names6 goto exempt
	}
	chain exempt {
		meta mark set meta mark or $EXEMPT
	}
	chain learn {
		update @plane4 { ip daddr }
		update @plane6 { ip6 daddr }
	}
}
`
