package request

import (
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	// The prefix makes browsers refuse the cookie unless it is Secure and from
	// this very host; plain HTTP cannot have it and is for loopback only.
	secureCookie = "__Host-gpuaas"
	plainCookie  = "gpuaas_session"
)

// SessionCookie keeps a session's token for so long; without a time it is removed.
func SessionCookie(r *http.Request, token string, keep time.Duration) *http.Cookie {
	return NewCookie(r, secureCookie, plainCookie, token, keep)
}

// NewCookie returns a cookie that scripts cannot read, under its secure name on TLS. A keep of zero removes it.
func NewCookie(r *http.Request, secure, plain, value string, keep time.Duration) *http.Cookie {
	c := &http.Cookie{Name: plain, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: -1}
	if keep > 0 {
		c.MaxAge = int(keep / time.Second)
	}
	if r.TLS != nil {
		c.Name, c.Secure = secure, true
	}
	return c
}

// SessionToken reads the cookie that belongs to the request's scheme. The plain name
// is not looked at on HTTPS, where anyone on the network may have set it, nor on
// plain HTTP that leaves the machine, where anyone may have read it.
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
	default: // one of them was planted
		return "", errs.New(errs.BadRequest, "there are %d cookies %s", len(found), name).At("Cookie")
	}
}

// SameOrigin refuses a write that a browser sends for a page of another site. It
// counts only beside a cookie: programs with a key have no origin.
func SameOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		// Browsers say at least this much about every write.
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
