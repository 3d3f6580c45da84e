package server

import (
	"net/netip"
	"net/url"
	"strings"

	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// ParseFront reads how browsers know this server, and which proxies are trusted:
// addresses and networks.
func ParseFront(public string, proxies []string) (f middleware.Front, err error) {
	if public != "" {
		f.URL, err = url.Parse(public)
		if err != nil || f.URL.Host == "" || f.URL.Scheme != "https" && f.URL.Scheme != "http" || strings.Trim(f.URL.Path, "/") != "" || f.URL.User != nil || f.URL.RawQuery != "" {
			return f, errs.Invalid("--public-url", "%q is not a scheme with a host name", public).Try("write it as https://gpuaas.example")
		}
	}
	for _, text := range proxies {
		p, err := netip.ParsePrefix(text)
		if a, single := netip.ParseAddr(text); single == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return f, errs.Invalid("--trusted-proxy", "%q is neither an address nor a network", text).Try("write it as 10.0.0.0/8")
		}
		f.Proxies = append(f.Proxies, p.Masked())
	}
	return f, nil
}
