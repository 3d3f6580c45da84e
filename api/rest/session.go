package rest

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	// The prefix makes browsers refuse the cookie unless it is Secure and from
	// this very host; plain HTTP cannot have it and is for loopback only.
	secureCookie = "__Host-gpuaas"
	plainCookie  = "gpuaas_session"
	sessionFor   = 12 * time.Hour
)

func sessionCookie(r *http.Request, token string) *http.Cookie {
	cookie := &http.Cookie{Name: plainCookie, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(sessionFor / time.Second)}
	if r.TLS != nil {
		cookie.Name, cookie.Secure = secureCookie, true
	}
	return cookie
}

// sessionOf reads the cookie that belongs to the request's scheme. The plain name
// is not looked at on HTTPS, where anyone on the network may have set it, nor on
// plain HTTP that leaves the machine, where anyone may have read it.
func sessionOf(r *http.Request) (string, error) {
	name := plainCookie
	switch {
	case r.TLS != nil:
		name = secureCookie
	case !loopbackHost(r.Host):
		return "", nil
	}
	switch found := r.CookiesNamed(name); len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0].Value, nil
	default: // one of them was planted
		return "", errs.New(errs.BadRequest, "there are %d cookies %s", len(found), name).At("Cookie")
	}
}

// sameOrigin refuses a write that a browser sends for a page of another site. It
// counts only beside a cookie: programs with a key have no origin.
func sameOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		// Browsers say at least this much about every write.
		switch site := r.Header.Get("Sec-Fetch-Site"); site {
		case "", "same-origin", "none":
			return nil
		default:
			return errs.New(errs.OriginNotAllowed, "the request comes from another site")
		}
	}
	u, err := url.Parse(origin)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if err != nil || u.Host != r.Host || u.Scheme != scheme {
		return errs.New(errs.OriginNotAllowed, "the request comes from another site").With("origin", origin)
	}
	return nil
}

// mayPickPerson is true for a development installation asked from this machine.
// The Host is checked, too: a name that somebody else's DNS points at loopback
// would make a foreign page the same origin.
func (s *Server) mayPickPerson(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return s.Development && err == nil && from.Addr().Unmap().IsLoopback() && loopbackHost(r.Host)
}

func loopbackHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if name == "localhost" {
		return true
	}
	ip := net.ParseIP(name)
	if ip == nil && len(name) > 2 && name[0] == '[' {
		ip = net.ParseIP(name[1 : len(name)-1])
	}
	return ip != nil && ip.IsLoopback()
}
