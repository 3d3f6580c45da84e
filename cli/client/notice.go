package client

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/gpuaas/gpuaas/cli/output"
)

// noticing writes the notice of the platform to the error output, once for each client. A notice never fails a request.
type noticing struct {
	transport http.RoundTripper
	console   *output.Console
	syncOnce  sync.Once
}

// RoundTrip sends a request.
func (n *noticing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := n.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if text, bad := url.PathUnescape(resp.Header.Get("X-Platform-Notice")); bad == nil && text != "" {
		n.syncOnce.Do(func() { _, _ = fmt.Fprintln(n.console.Err, "notice: "+output.CellText(text)) })
	}
	return resp, nil
}
