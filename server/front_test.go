package server_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/server"
)

func TestParseFront(t *testing.T) {
	t.Parallel()

	f, err := server.ParseFront("https://gpuaas.example/", []string{"10.0.0.0/8", "192.0.2.1", "2001:db8::1"})
	if err != nil || f.URL.Host != "gpuaas.example" || len(f.Proxies) != 3 || f.Proxies[1].String() != "192.0.2.1/32" || f.Proxies[2].String() != "2001:db8::1/128" {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := server.ParseFront("", nil); err != nil || f.URL != nil || f.Proxies != nil {
		t.Errorf("%+v, %v", f, err)
	}
	for _, public := range []string{"gpuaas.example", "ftp://gpuaas.example", "https://", "https://gpuaas.example/path", "https://me@gpuaas.example", "https://a/?x=1", "://"} {
		if _, err := server.ParseFront(public, nil); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%q: %v", public, err)
		}
	}
	for _, proxy := range []string{"", "proxy", "10.0.0.0/33", "10.0.0"} {
		if _, err := server.ParseFront("", []string{proxy}); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%q: %v", proxy, err)
		}
	}
}
