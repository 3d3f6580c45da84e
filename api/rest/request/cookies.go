package request

import (
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	// With this prefix, browsers accept the cookie only if it is Secure and from exactly this host.
	// Plain HTTP cannot use it and is for loopback only.
	secureCookie = "__Host-gpuaas"
	plainCookie  = "gpuaas_session"
)

// SessionCookie returns a cookie that stores a session's token for the given time. A time of zero
// removes the cookie.
func SessionCookie(r *http.Request, token string, lifetime time.Duration) *http.Cookie {
	return NewCookie(r, secureCookie, plainCookie, token, lifetime)
}

// NewCookie returns a cookie that scripts cannot read, under its secure name on TLS. A lifetime of zero removes it.
func NewCookie(r *http.Request, secure, plain, value string, lifetime time.Duration) *http.Cookie {
	c := &http.Cookie{Name: plain, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: -1}
	if lifetime > 0 {
		c.MaxAge = int(lifetime / time.Second)
	}
	if r.TLS != nil {
		c.Name, c.Secure = secure, true
	}
	return c
}

// SessionToken reads the cookie that belongs to the scheme of the request. It ignores the plain
// name on HTTPS, because an attacker on the network may have set it, and on plain HTTP outside
// loopback, because an attacker may have read it.
func SessionToken(r *http.Request) (string, error) { return CookieValue(r, secureCookie, plainCookie) }

// CookieValue reads the cookie that belongs to the scheme of the request. Two of one name are an error.
func CookieValue(r *http.Request, secure, plain string) (string, error) {
	name := plain
	switch {
	case r.TLS != nil:
		name = secure
	case !loopbackHost(r.Host):
		return "", nil
	}
	switch found := r.CookiesNamed(name); len(found) {
	case 0:
		return "", nil
	case 1:
		return found[0].Value, nil
	default: // an attacker may have set one of them
		return "", errs.New(errs.BadRequest, "there are %d cookies %s", len(found), name).At("Cookie")
	}
}

// SameOrigin rejects a write that a browser sends for a page of another site. It applies only to
// requests with a cookie: clients with a key send no origin.
func SameOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		// Browsers send at least this header with every write.
		switch site := r.Header.Get("Sec-Fetch-Site"); site {
		case "", "same-origin", "none":
			return nil
		default:
			return errs.New(errs.OriginNotAllowed, "the request has another origin")
		}
	}
	u, err := url.Parse(origin)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if err != nil || u.Host != r.Host || u.Scheme != scheme {
		return errs.New(errs.OriginNotAllowed, "the request has another origin").With("origin", origin)
	}
	return nil
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
