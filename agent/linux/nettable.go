package linux

import (
	"fmt"
	"net"
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
func (h *Host) resolvers() (found []netip.Addr, err error) {
	err = h.Lines("/etc/resolv.conf", func(line string) {
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

// serverPort returns the address of the node API if the configuration has a number, and its port.
func (h *Host) serverPort() (address netip.Addr, port uint16) {
	u, err := url.Parse(h.Server)
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

// table returns the rules that restrict tenants, by the uid of the socket of a packet.
//
// A packet that leaves the node is rejected by its destination. Explicit configuration applies before what is
// closed by default. The kernel adds the addresses of the node API to the table when the network process of the
// agent connects to them.
//
// A packet that stays on the node is marked with its sender, and package receiver compares the mark with the owner
// of the socket that receives it.
func (h *Host) table(uids []int) (string, error) {
	resolvers, err := h.resolvers()
	if err != nil {
		return "", err
	}
	closed := closedNetworks()
	server, port := h.serverPort()
	if server.IsValid() && !server.IsLoopback() {
		closed = append(closed, netip.PrefixFrom(server, server.BitLen()))
	}
	var open, ports, names [2][]string
	for _, r := range h.Allow {
		if n := unmapped(r.Network); r.Port == 0 {
			add(&open, n, n.String())
		} else {
			add(&ports, n, fmt.Sprintf("%s . %d", n, r.Port))
		}
	}
	for _, a := range resolvers {
		add(&names, netip.PrefixFrom(a, a.BitLen()), a.String())
	}
	var senders []string
	for _, uid := range uids {
		senders = append(senders, fmt.Sprintf("%d : %[1]d", uid))
	}
	learn := ""
	if h.AgentUID > 0 && port > 0 {
		learn = fmt.Sprintf("meta skuid %d tcp dport %d oifname != \"lo\" jump learn", h.AgentUID, port)
	}
	return strings.NewReplacer(
		"$TENANTS", fmt.Sprintf("%d-%d", hostos.MinUID, hostos.MaxUID), "$SENDERS", elements(senders), "$LEARN", learn,
		"$DENIED4", elements(networks(h.Deny)[0]), "$DENIED6", elements(networks(h.Deny)[1]),
		"$CLOSED4", elements(networks(closed)[0]), "$CLOSED6", elements(networks(closed)[1]),
		"$OPEN4", elements(open[0]), "$OPEN6", elements(open[1]), "$PORTS4", elements(ports[0]), "$PORTS6", elements(ports[1]),
		"$NAMES4", elements(names[0]), "$NAMES6", elements(names[1]),
		"$PRIORITY", fmt.Sprintf("%x:%x", receiver.Priority>>16, receiver.Priority&0xffff),
		"$UNKNOWN", fmt.Sprintf("%#x", receiver.Unknown), "$EXEMPT", fmt.Sprintf("%#x", receiver.Host),
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

// loopbackPort returns an address on loopback.
func loopbackPort(port uint64) string {
	return net.JoinHostPort("127.0.0.1", strconv.FormatUint(port, 10))
}

// A packet of a socket that no process has open has no uid. It belongs to a connection whose first
// packets had one.
//
// A response to a connection that the host OS has opened to a tenant may return. An address on loopback that
// another program translates, as Docker does for a published port, is on this node, too.
const tableText = `table inet gpuaas
delete table inet gpuaas
table inet gpuaas {
	map senders { type uid : mark; $SENDERS }
	set open4 { type ipv4_addr; flags interval; auto-merge; $OPEN4 }
	set open6 { type ipv6_addr; flags interval; auto-merge; $OPEN6 }
	set ports4 { type ipv4_addr . inet_service; flags interval; $PORTS4 }
	set ports6 { type ipv6_addr . inet_service; flags interval; $PORTS6 }
	set names4 { type ipv4_addr; $NAMES4 }
	set names6 { type ipv6_addr; $NAMES6 }
	set denied4 { type ipv4_addr; flags interval; auto-merge; $DENIED4 }
	set denied6 { type ipv6_addr; flags interval; auto-merge; $DENIED6 }
	set closed4 { type ipv4_addr; flags interval; auto-merge; $CLOSED4 }
	set closed6 { type ipv6_addr; flags interval; auto-merge; $CLOSED6 }
	set plane4 { type ipv4_addr; size 256; flags dynamic,timeout; timeout 1d; }
	set plane6 { type ipv6_addr; size 256; flags dynamic,timeout; timeout 1d; }
	chain output {
		type filter hook output priority filter; policy accept;
		$LEARN
		meta skuid $TENANTS goto tenant
	}
	chain tenant {
		oifname "lo" goto stays
		fib daddr type { multicast, broadcast } jump stays
		ip daddr @open4 accept
		ip6 daddr @open6 accept
		meta l4proto { tcp, udp } ip daddr . th dport @ports4 accept
		meta l4proto { tcp, udp } ip6 daddr . th dport @ports6 accept
		ip daddr @denied4 reject
		ip6 daddr @denied6 reject
		meta l4proto { tcp, udp } th dport 53 ip daddr @names4 accept
		meta l4proto { tcp, udp } th dport 53 ip6 daddr @names6 accept
		ip daddr @closed4 reject
		ip6 daddr @closed6 reject
		ip daddr @plane4 reject
		ip6 daddr @plane6 reject
		ct original ip daddr 127.0.0.0/8 reject
	}
	chain stays {
		meta priority set $PRIORITY
		meta mark set $UNKNOWN
		meta mark set meta skuid map @senders
		ct direction reply goto exempt
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
