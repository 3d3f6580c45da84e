package rest

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Front is what stands before this door. The zero Front is nothing: then a request
// is what its connection says, and no header is believed about it.
type Front struct {
	// URL is how browsers know this server, where a proxy ends TLS for it.
	URL *url.URL
	// Proxies are those whose word counts about where a request comes from.
	Proxies []netip.Prefix
}

// unwrap makes a request what it was for its sender: cookies, redirects, the check
// of origins and the limits by address then need not know about proxies.
func (f Front) unwrap(r *http.Request) {
	if f.URL != nil {
		r.Host = f.URL.Host // the configured one, and never one that somebody sends
		if f.URL.Scheme == "https" && r.TLS == nil {
			r.TLS = &tls.ConnectionState{}
		}
	}
	if from, ok := f.sender(r); ok {
		r.RemoteAddr = net.JoinHostPort(from.String(), "0")
	}
}

// sender is the last address of the chain that is no proxy of ours: what stands
// before it was written by whoever wanted to.
func (f Front) sender(r *http.Request) (netip.Addr, bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !f.trusts(peer.Addr()) {
		return netip.Addr{}, false
	}
	chain := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, text := range slices.Backward(chain) {
		from, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			break // a proxy that cannot write addresses is not believed
		}
		if !f.trusts(from) {
			return from.Unmap(), true
		}
	}
	return netip.Addr{}, false
}

func (f Front) trusts(a netip.Addr) bool {
	a = a.Unmap()
	return slices.ContainsFunc(f.Proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}
