package webhook_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
)

// The addresses that a server must not connect to for a tenant: as a URL, where they are rejected when the webhook is
// created, and as the address that a name resolves to, where the dialler rejects them.
var forbidden = []string{
	"127.0.0.1", "127.1.2.3", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1", "192.168.255.1",
	"100.64.0.1", "100.127.255.254", "169.254.169.254", "169.254.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.19.255.1",
	"198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "192.88.99.1",
	"::1", "::", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1",
	"2002:7f00:1::", "2001:0:4136:e378::1", "2001:db8::1", "fe80::1", "fe80::1%25eth0", "fc00::1", "fd00:ec2::254", "fd12:3456::1", "fec0::1", "ff02::1", "100::1",
}

func TestSSRFAddressesAreRejected(t *testing.T) {
	t.Parallel()
	if len(forbidden) < 40 {
		t.Fatalf("%d addresses", len(forbidden))
	}
	s := webhook.NewSender(false)
	for _, a := range forbidden {
		host := a
		if strings.Contains(a, ":") {
			host = "[" + a + "]"
		}
		if _, err := webhook.CheckURL("https://"+host+"/", false); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("https://%s/ was accepted: %v", host, err)
		}
		if err := s.Control(net.JoinHostPort(strings.ReplaceAll(a, "%25", "%"), "443")); err == nil {
			t.Errorf("a connection to %s was allowed", a)
		}
		if local := strings.HasPrefix(a, "127.") || a == "::1"; !local && !strings.HasPrefix(a, "::ffff:127") {
			if err := webhook.NewSender(true).Control(net.JoinHostPort(strings.ReplaceAll(a, "%25", "%"), "443")); err == nil {
				t.Errorf("in development, a connection to %s was allowed", a)
			}
		}
	}
	for _, a := range []string{"8.8.8.8", "140.82.121.3", "172.32.0.1", "100.63.255.255", "2606:50c0:8000::153", "2a00:1450:4001::1"} {
		if err := s.Control(net.JoinHostPort(a, "443")); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func TestURLsAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{ // empty: rejected
		"https://hooks.example.com/gpuaas":                       "https://hooks.example.com/gpuaas",
		"https://Hooks.Example.COM./a?b=c%20d":                   "https://hooks.example.com/a?b=c%20d",
		"https://hooks.example.com:8443/":                        "https://hooks.example.com:8443/",
		"https://bücher.example/a":                               "https://xn--bcher-kva.example/a",
		"https://140.82.121.3/":                                  "https://140.82.121.3/",
		"https://[2606:50c0:8000::153]:8443/x":                   "https://[2606:50c0:8000::153]:8443/x",
		"http://hooks.example.com/":                              "",
		"ftp://hooks.example.com/":                               "",
		"https:hooks.example.com":                                "",
		"https:///x":                                             "",
		"//hooks.example.com/":                                   "",
		"https://user@hooks.example.com/":                        "",
		"https://user:pass@hooks.example.com/":                   "",
		"https://hooks.example.com/#part":                        "",
		"https://hooks.example.com/#":                            "",
		"https://hooks.example.com:22/":                          "",
		"https://hooks.example.com:25/":                          "",
		"https://hooks.example.com:6379/":                        "",
		"https://hooks.example.com:99999/":                       "",
		"https://hooks.example.com:/":                            "",
		"https://2130706433/":                                    "",
		"https://0x7f000001/":                                    "",
		"https://0x7f.1/":                                        "",
		"https://0177.0.0.1/":                                    "",
		"https://127.1/":                                         "",
		"https://1.2.3.4.5/":                                     "",
		"https://[::ffff:8.8.8.8]/":                              "",
		"https://localhost/":                                     "",
		"https://a.localhost/":                                   "",
		"https://metadata.google.internal/":                      "",
		"https://intranet/":                                      "",
		"https://printer.local/":                                 "",
		"https://hooks.example.com/a b":                          "",
		"https://hooks.example.com/\r\nX: y":                     "",
		"https://hooks.example.com\\@evil.example/":              "",
		"https://xn--a/":                                         "",
		"https://" + strings.Repeat("a", 300) + ".com/":          "",
		"https://hooks.example.com/" + strings.Repeat("a", 4096): "",
		"": "",
	} {
		got, err := webhook.CheckURL(text, false)
		if got != want || (want == "") != (errs.CodeOf(err) == errs.ValidationError) {
			t.Errorf("%.80q became %q (%v), want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"http://127.0.0.1:8080/", "http://localhost:34567/x", "http://[::1]:9/", "https://a.localhost:1234/"} {
		if got, err := webhook.CheckURL(text, true); err != nil || got != text {
			t.Errorf("in development, %s became %q, %v", text, got, err)
		}
	}
	if _, err := webhook.CheckURL("http://10.0.0.1/", true); err == nil {
		t.Error("in development, a private address was accepted")
	}
}

// A name that resolves to a public address at first, and to this computer when the request is sent: the dialler sees the
// second one. A proxy of the environment would connect itself, so it is not used.
func TestDNSRebindingIsRejected(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	b := setup(t)
	reached := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} }))
	t.Cleanup(server.Close)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: server.URL})
	b.work.Sender = webhook.NewSender(false) // the address of the name, at the time of the request
	b.exec(`UPDATE webhook_endpoints SET url = replace(url, '127.0.0.1', 'localhost')`)
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	b.deliver(e.ID)
	if d := b.list(e)[0]; d.Status != "pending" || !strings.Contains(d.Attempts[0].Error, "not public") || len(reached) > 0 {
		t.Errorf("%+v", d)
	}
}
