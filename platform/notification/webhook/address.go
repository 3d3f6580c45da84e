package webhook

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/netguard"
)

const (
	maxURL  = 2048
	maxName = 253
)

// checkURL returns the address in the form in which it is stored and displayed: the name of its server in lower case and in ASCII.
// The dialler checks the resolved address again. A development installation also sends to the loopback interface, without
// TLS.
func checkURL(text string, development bool) (string, error) {
	if len(text) > maxURL {
		return "", errs.Invalid("url", "has more than %d characters", maxURL)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return "", errs.Invalid("url", "contains a space, a control character or a backslash")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return "", errs.Invalid("url", "is not a URL").Try("use a URL such as https://hooks.example.com/gpuaas")
	case u.User != nil:
		return "", errs.Invalid("url", "contains a user name or password").Try("verify the signature of the request instead")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return "", errs.Invalid("url", "contains a fragment, which is not sent").Try("remove the part after #")
	}
	host, err := checkHost(u.Hostname(), development)
	if err != nil {
		return "", err
	}
	local := development && isLoopback(host)
	if u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return "", errs.Invalid("url", "must begin with https")
	}
	if !local && !allowedPort(u.Port()) || u.Port() == "" && strings.HasSuffix(u.Host, ":") {
		return "", errs.Invalid("url", "names port %q, which is not allowed", u.Port()).Try("use port 443, 80 or one of 8000 to 8999")
	}
	port := u.Port()
	if u.Host = host; strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if port != "" {
		u.Host += ":" + port
	}
	if len(u.String()) > maxURL {
		return "", errs.Invalid("url", "has more than %d characters", maxURL)
	}
	return u.String(), nil
}

// allowedPort rejects the ports of other protocols: the request would be an attack on a service that is not HTTP.
func allowedPort(port string) bool {
	n, err := strconv.Atoi(port)
	return port == "" || err == nil && (n == 443 || n == 80 || n >= 8000 && n <= 8999)
}

func checkHost(host string, development bool) (string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		if !netguard.Public(a) && (!development || !a.IsLoopback()) {
			return "", errs.Invalid("url", "names the address %s, which is not public", a).Try("use a server that is reachable from the internet")
		}
		return a.String(), nil
	}
	ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil || ascii == "" || len(ascii) > maxName {
		return "", errs.Invalid("url", "names no valid server")
	}
	labels := strings.Split(ascii, ".")
	switch last := labels[len(labels)-1]; {
	case isNumber(last):
		return "", errs.Invalid("url", "names an IPv4 address in another form than four decimal numbers")
	case development && last == "localhost":
		return ascii, nil
	case len(labels) == 1 || slices.Contains([]string{"localhost", "local", "internal", "localdomain", "home", "lan", "arpa"}, last):
		return "", errs.Invalid("url", "names the server %s, which only an internal network has", ascii).Try("use a server that is reachable from the internet")
	}
	return ascii, nil
}

// isNumber reports whether the last part of a name makes it an IPv4 address, by the URL standard: decimal, octal or
// hexadecimal.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func isLoopback(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// hostOf returns the server of a stored URL.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
