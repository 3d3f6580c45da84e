package request

import (
	"net"
	"net/http"

	"github.com/gpuaas/gpuaas/platform/audit"
)

// Client returns the program that sent the request. The middlewares have replaced the address of a trusted
// proxy by that of its client.
func Client(r *http.Request) (c audit.Client) {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil { // a Unix socket has no address
		c.Address = host
	}
	if agent := r.Header["User-Agent"]; len(agent) > 0 {
		c.UserAgent = agent[0]
	}
	return c
}
