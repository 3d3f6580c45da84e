// Package netguard decides which network addresses a server connects to on behalf of others. A dialler calls it with the
// resolved address, so that a DNS name that resolves to another address the second time gains nothing.
package netguard

import (
	"net/netip"
	"slices"
)

// carriers are the IPv6 prefixes that contain an IPv4 address, with its first byte.
var carriers = map[netip.Prefix]int{
	netip.MustParsePrefix("64:ff9b::/96"):   12,
	netip.MustParsePrefix("64:ff9b:1::/48"): 12,
	netip.MustParsePrefix("2002::/16"):      2,
	netip.MustParsePrefix("::/96"):          12,
}

// metadata of clouds that is not link-local.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16")}

// Reserved reports whether an address is this computer, its link, or the metadata service of its cloud.
// Private networks are not reserved: forges are in them.
func Reserved(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	for prefix, from := range carriers {
		if prefix.Contains(a) && a != netip.IPv6Loopback() && a != netip.IPv6Unspecified() {
			b := a.As16()
			return Reserved(netip.AddrFrom4([4]byte(b[from : from+4])))
		}
	}
	return slices.Contains(metadata, a) || a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.Is4() && a.As4()[0] == 0 ||
		a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// special are the address blocks that do not belong to the public internet (the IANA registries of special-purpose
// addresses), besides those of Reserved. A translated or tunnelled address counts as its block, whatever it contains.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24",
	"192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
)

// globalUnicast contains all public IPv6 addresses.
var globalUnicast = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// Public reports whether an address belongs to the public internet. An IPv4 address in the form of an IPv6 address does
// not.
func Public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" || a.Is4In6() || Reserved(a) || a.Is6() && !globalUnicast.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}
