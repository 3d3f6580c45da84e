package middleware

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Front is the proxy before the server. With the zero Front the source of a request is the other end of its
// connection, and headers about its origin are ignored.
type Front struct {
	// URL is the address of this server for browsers, where a proxy ends TLS.
	URL *url.URL
	// Proxies are trusted to set X-Forwarded-For.
	Proxies []netip.Prefix
}

// Handler passes requests on with the client and the host that the proxies report.
func (f Front) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.unwrap(r)
		next.ServeHTTP(w, r)
	})
}

// unwrap restores the host, the scheme and the address that the sender used. Cookies, redirects, the
// check of origins and the limits by address then need not know about proxies.
func (f Front) unwrap(r *http.Request) {
	if f.URL != nil {
		r.Host = f.URL.Host // from the configuration, because a client can send any host
		if f.URL.Scheme == "https" && r.TLS == nil {
			r.TLS = &tls.ConnectionState{}
		}
	}
	if from, ok := f.sender(r); ok {
		r.RemoteAddr = net.JoinHostPort(from.String(), "0")
	}
}

// sender returns the last address of the chain that is no trusted proxy. Any client can write the
// addresses before it.
func (f Front) sender(r *http.Request) (netip.Addr, bool) {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !f.trusts(peer.Addr()) {
		return netip.Addr{}, false
	}
	chain := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, text := range slices.Backward(chain) {
		from, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			break // a proxy that forwards a malformed address is not trusted
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
