package forge

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/netguard"
)

const part = `[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,98}[A-Za-z0-9_-])?`

var (
	ownerAndName  = regexp.MustCompile(`^` + part + `/` + part + `$`)
	groupsAndName = regexp.MustCompile(`^` + part + `(?:/` + part + `)+$`)
)

// Where an API is below the address that people know its forge by, and the forge
// that is meant when none is named.
var apis = map[Kind]struct{ home, path string }{
	GitHub: {"https://api.github.com", "/api/v3"},
	GitLab: {"https://gitlab.com", "/api/v4"},
	Gitea:  {"", "/api/v1"},
}

// address returns the base URL of the forge's API.
func address(c Config) (string, error) {
	at := c.URL
	if at == "" || c.Kind == GitHub && strings.TrimSuffix(at, "/") == "https://github.com" {
		at = apis[c.Kind].home
	}
	u, err := url.Parse(at)
	switch {
	case at == "":
		return "", errs.Invalid("url", "%s has no one address", c.Kind).Try("name the forge's own")
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errs.Invalid("url", "this is no address of a forge").Try("as in https://git.example.com, without a password")
	// The token would travel in clear.
	case u.Scheme != "https" && (u.Scheme != "http" || !c.AllowPrivate):
		return "", errs.Invalid("url", "the URL of a forge needs https")
	}
	base := u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/")
	if api := apis[c.Kind].path; base != apis[GitHub].home && !strings.HasSuffix(base, api) {
		base += api
	}
	return base, nil
}

// credentials names the token as each forge wants it, and us.
func credentials(c Config) http.Header {
	h := http.Header{"User-Agent": {"gpuaas"}, "Accept": {"application/json"}}
	switch c.Kind {
	case GitHub:
		h.Set("Authorization", "Bearer "+string(c.Token))
		h.Set("Accept", "application/vnd.github+json")
		h.Set("X-Github-Api-Version", "2022-11-28")
	case GitLab:
		h.Set("Private-Token", string(c.Token))
	case Gitea:
		h.Set("Authorization", "token "+string(c.Token))
	}
	return h
}

const (
	// callTimeout is a third of the job's timeout.
	callTimeout = 10 * time.Second
	dialTimeout = 5 * time.Second
)

// bounded returns the HTTP client for all calls. The client follows no redirect: the token is valid
// for one server only, and the operator should correct the address of a project that has moved.
func bounded(c Config) *http.Client {
	client := http.Client{Timeout: callTimeout}
	if c.Client != nil {
		client = *c.Client
	} else {
		dialer := &net.Dialer{Timeout: dialTimeout}
		if !c.AllowPrivate {
			dialer.Control = public
		}
		client.Transport = &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: callTimeout, MaxResponseHeaderBytes: 64 << 10,
		}
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// public rejects the addresses that a name must not resolve to: the loopback interface and the
// metadata addresses of clouds. It receives the resolved address, so a DNS name cannot bypass it.
// Private networks are allowed, because forges run there.
func public(_, at string, _ syscall.RawConn) error {
	host, err := netip.ParseAddrPort(at)
	if err != nil {
		return errs.New(errs.ProviderFailed, "the forge's name leads nowhere").Because(err)
	}
	if a := host.Addr(); netguard.Reserved(a) {
		return errs.New(errs.ProviderFailed, "the forge's name resolves to %s, which is not an allowed address", a)
	}
	return nil
}
