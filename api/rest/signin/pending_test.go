package signin

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCallbackOf: the provider leads browsers back to the address by which they know this server.
func TestCallbackOf(t *testing.T) {
	t.Parallel()

	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.Host = "gpuaas.example"
	if got := callbackOf(r); got != "http://gpuaas.example/auth/callback" {
		t.Errorf("callback %s", got)
	}
	r.TLS = &tls.ConnectionState{} // as the middleware sets it behind a proxy that ends TLS
	if got := callbackOf(r); got != "https://gpuaas.example/auth/callback" {
		t.Errorf("callback %s", got)
	}
}
