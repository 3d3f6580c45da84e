package rest_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// port is the API's HTTP server on a port of its own, to which tests send bytes.
type port struct {
	*fixture

	address string
}

// canary is sent wherever a secret could be, and no response may contain it.
const canary = "gpk_canary-7f3a"

func listen(t *testing.T, change ...func(*http.Server)) *port {
	t.Helper()
	s := &port{fixture: setup(t, func(w *fixture, c *rest.Config) {
		c.Log = slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})}
	server := s.server.HTTPServer()
	for _, c := range change {
		c(server)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if strings.Contains(s.log.String(), canary) {
			t.Error("a secret is in the log")
		}
	})
	return s
}

func (s *port) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	// Only a test that hangs waits so long.
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// send sends the bytes and reads all answers until the server hangs up. An answer
// of 400 from net/http itself is plain text; every other failure is ours.
func (s *port) send(t *testing.T, text string) (statuses []int, all string) {
	t.Helper()
	c := s.dial(t)
	go func() { _, _ = io.WriteString(c, text) }() // the server may answer, and close, before it has read all
	raw, _ := io.ReadAll(c)                        // a reset after the answer is as good as an end
	all = string(raw)
	for r := bufio.NewReader(bytes.NewReader(raw)); ; {
		w, err := http.ReadResponse(r, nil)
		if err != nil {
			break
		}
		_, _ = io.Copy(io.Discard, w.Body)
		_ = w.Body.Close()
		statuses = append(statuses, w.StatusCode)
	}
	for _, leak := range []string{canary, "goroutine ", ".go:", "SELECT ", "runtime error"} {
		if strings.Contains(all, leak) {
			t.Errorf("a response contains %q:\n%s", leak, all)
		}
	}
	return statuses, all
}

// checkServes sends a correct request on a connection of its own.
func (s *port) checkServes(t *testing.T) {
	t.Helper()
	if got, all := s.send(t, lines("GET /api/v1/skus HTTP/1.1", "Host: x", "Authorization: Bearer "+tokenOwner, "Connection: close")); len(got) != 1 || got[0] != 200 {
		t.Errorf("a good request afterwards: %v\n%s", got, all)
	}
}

func lines(head ...string) string { return strings.Join(head, "\r\n") + "\r\n\r\n" }

// get is a signed-in request with further lines.
func get(path string, more ...string) string {
	return lines(append([]string{"GET " + path + " HTTP/1.1", "Host: x", "Authorization: Bearer " + tokenOwner, "Connection: close"}, more...)...)
}

// post creates an allocation with these lines about its body.
func post(body string, more ...string) string {
	return lines(append([]string{"POST " + allocations + " HTTP/1.1", "Host: x", "Authorization: Bearer " + tokenOwner, "Content-Type: application/json", "X-Project-ID: default"}, more...)...) + body
}

const (
	order    = `{"sku":"h100-sxm"}`
	chunked  = "12\r\n" + order + "\r\n0\r\n\r\n"
	smuggled = "GET /api/v1/admin/nodes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + tokenAdmin + "\r\nConnection: close\r\n\r\n"
)

// INV-60, R12: each has one answer, and never one of the smuggled requests a second.
func TestHostileRequests(t *testing.T) {
	t.Parallel()

	s := listen(t)
	length := fmt.Sprintf("Content-Length: %d", len(order))
	large := strings.Repeat("x", 1<<20+1)
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"body too long, announced":     {post("", fmt.Sprintf("Content-Length: %d", 1<<20+1), "Connection: close"), 413},
		"body too long, chunked":       {post(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(large), large), "Transfer-Encoding: chunked"), 413},
		"body shorter than its length": {post("", "Content-Length: -1"), 400},
		"length that is no number":     {post(order, "Content-Length: 0x12"), 400},
		"chunk that is no number":      {post("zz\r\n"+order+"\r\n0\r\n\r\n", "Transfer-Encoding: chunked", "Connection: close"), 400},
		"headers over 64 KiB":          {get("/api/v1/skus", "X-Large: "+strings.Repeat("x", 70<<10)), 431},
		"many headers":                 {get("/api/v1/skus", strings.TrimSuffix(strings.Repeat("X-Y: "+strings.Repeat("y", 50)+"\r\n", 1300), "\r\n")), 431},
		"headers over all bounds":      {get("/api/v1/skus", "X-Large: "+strings.Repeat("x", 300<<10)), 431},
		"a line over all bounds":       {get("/" + strings.Repeat("x", 300<<10)), 431},

		"CL.TE":                  {post(chunked+smuggled, length, "Transfer-Encoding: chunked"), 201},
		"TE.CL":                  {post("1\r\n{\r\n0\r\n\r\n"+smuggled, "Transfer-Encoding: chunked", "Content-Length: 4"), 400},
		"TE.TE":                  {post(chunked+smuggled, "Transfer-Encoding: chunked", "Transfer-Encoding: identity"), 501},
		"unknown coding":         {post(chunked+smuggled, "Transfer-Encoding: xchunked"), 501},
		"coding after tab":       {post(chunked+smuggled, "Transfer-Encoding:\x0bchunked"), 400},
		"two lengths":            {post(order+smuggled, length, "Content-Length: 3"), 400},
		"list of lengths":        {post(order+smuggled, "Content-Length: 18, 3"), 400},
		"space before the colon": {post(chunked+smuggled, "Transfer-Encoding : chunked"), 400},
		"space before a name":    {"GET /api/v1/skus HTTP/1.1\r\n Host: x\r\n\r\n" + smuggled, 400},
		"chunked on HTTP/1.0":    {strings.Replace(post(chunked+smuggled, "Transfer-Encoding: chunked"), "HTTP/1.1", "HTTP/1.0", 1), 400},
		"CR alone ends no line":  {"GET /api/v1/skus HTTP/1.1\rHost: x\r\r" + smuggled, 400},
		"two hosts":              {get("/api/v1/skus", "Host: y"), 400},
		"no host":                {"GET /api/v1/skus HTTP/1.1\r\n\r\n", 400},
		"zero byte in a header":  {get("/api/v1/skus", "X-A: a\x00b"), 400},
		"HTTP/2 without TLS":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 404},
		"HTTP/3 by name":         {"GET /api/v1/skus HTTP/3.0\r\nHost: x\r\n\r\n", 505},
		"upgrade to h2c":         {get("/api/v1/skus", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"), 200},
		"upgrade to a websocket": {get("/api/v1/skus", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="), 200},
		"CONNECT":                {"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\nConnection: close\r\n\r\n", 404},
		"TRACE":                  {"TRACE /api/v1/skus HTTP/1.1\r\nHost: x\r\nCookie: gpuaas_session=" + canary + "\r\nConnection: close\r\n\r\n", 405},
		"a method of no name":    {"\x01 /api/v1/skus HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		"proxy request":          {get("http://169.254.169.254/latest/meta-data"), 404},
		"asterisk":               {"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200},
		"range bomb":             {get("/api/v1/skus", "Range: bytes="+strings.Repeat("0-,", 5000)+"0-"), 200},
		"gzip body":              {post("\x1f\x8b\x08\x00\x00\x00\x00\x00", "Content-Encoding: gzip", "Content-Length: 8", "Connection: close"), 415},
		"deflate, twice":         {post("xx", "Content-Encoding: deflate, gzip", "Content-Length: 2", "Connection: close"), 415},
		"a token of canary":      {lines("GET /api/v1/skus HTTP/1.1", "Host: x", "Authorization: Bearer "+canary, "Connection: close"), 401},
		"another scheme":         {lines("GET /api/v1/skus HTTP/1.1", "Host: x", "Authorization: Basic "+canary, "Connection: close"), 401},
		"two authorisations":     {get("/api/v1/skus", "Authorization: Bearer "+tokenAdmin), 400},
		"two session cookies":    {lines("GET /api/v1/skus HTTP/1.1", "Host: localhost", "Cookie: gpuaas_session=a; gpuaas_session="+canary, "Connection: close"), 400},
		"a token in the URL":     {get("/api/v1/skus?token=" + canary), 401},
		"expects":                {post("", "Content-Length: 5", "Expect: the-moon", "Connection: close"), 417},
		"bare LF":                {strings.ReplaceAll(get("/api/v1/skus"), "\r\n", "\n"), 200},
		"a folded header":        {lines("GET /api/v1/skus HTTP/1.1", "Host: x", "Authorization: Bearer", " "+tokenOwner, "Connection: close"), 200},
		"nesting without end":    {post(strings.Repeat("[", 200_000), "Content-Length: 200000", "Connection: close"), 400},
		"a number without end":   {post(`{"sku":"a","gpus":`+strings.Repeat("9", 100_000)+`}`, "Content-Length: 100019", "Connection: close"), 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, all := s.send(t, c.text)
			if len(got) != 1 || got[0] != c.want {
				t.Errorf("got %v, want one answer %d:\n%.600s", got, c.want, all)
			}
			s.checkServes(t)
		})
	}
}

// Whatever a path is written as, it leads to one route or to none.
func TestHostilePaths(t *testing.T) {
	t.Parallel()

	s := listen(t)
	for path, want := range map[string]int{
		"//api/v1/skus":                        404,
		"/api//v1/skus":                        404,
		"/api/v1/skus/":                        404,
		"/api/v1/../v1/skus":                   404,
		"/api/v1/%2e%2e/v1/skus":               404,
		"/api/v1/..;/admin/nodes":              404,
		"/api/v1/skus;/admin":                  404,
		"/api/v1/skus/..%2fadmin%2fnodes":      404,
		"/api/v1%2fadmin/nodes":                404,
		"/api/v1/admin%2fnodes":                404,
		"/api/v1/skus/%2e%2e%2f%2e%2e%2fetc":   404,
		"/api/v1/skus/%00":                     400,
		"/api/v1/skus%00":                      404,
		"/api/v1/skus/%c0%ae%c0%ae":            400, // an overlong ..
		"/api/v1/skus/%e0%80%ae":               400,
		"/api/v1/skus/%":                       400,
		"/api/v1/skus/%zz":                     400,
		"/api/v1/skus/\\..\\..":                404,
		"/api/v1/skus/%5c..%5c":                404,
		"/api/v1/allocations/%2500":            400,
		"/API/V1/SKUS":                         404,
		"/api/v1/skus/h100-sxm%0d%0aX-Bad:%20": 404,
		"/assets/../../../../etc/passwd":       404,
		"/assets/%2e%2e/%2e%2e/go.mod":         404,
		"/docs/reference/../../livez":          404,
		"/api/v1/skus#fragment":                404,
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			got, all := s.send(t, get(path))
			if len(got) != 1 || got[0] != want {
				t.Errorf("got %v, want %d:\n%.600s", got, want, all)
			}
			if strings.Contains(all, "X-Bad:") && strings.Contains(all, "\nX-Bad") {
				t.Errorf("a header was planted:\n%s", all)
			}
			s.checkServes(t)
		})
	}
}

// What a client sends about itself changes neither who it is, nor what it may, nor
// its bucket, nor where an answer leads.
func TestForgedHeadersChangeNothing(t *testing.T) {
	t.Parallel()

	forged := []string{
		"X-Forwarded-For: 10.1.2.3", "X-Forwarded-Host: evil.test", "X-Forwarded-Proto: https", "X-Forwarded-Prefix: /evil",
		"Forwarded: for=10.1.2.3;host=evil.test;proto=https", "X-Real-IP: 10.1.2.3", "True-Client-IP: 10.1.2.3", "CF-Connecting-IP: 10.1.2.3",
		"X-Client-Cert: spiffe://dev/node/1", "X-SSL-Client-Verify: SUCCESS", "X-User: admin", "X-Remote-User: admin", "X-Tenant-ID: other",
		"X-Original-URL: /api/v1/admin/nodes", "X-Rewrite-URL: /api/v1/admin/nodes", "X-HTTP-Method-Override: DELETE", "X-Method-Override: POST", "X-HTTP-Method: PUT",
		"Origin: https://evil.test",
	}
	s := listen(t)
	s.allocate(t)
	s.allocate(t)
	me := `"actor":"user:` + users[tokenOwner].String() + `","tenant_id":"` + tenant.String() + `"`
	before := strings.Count(s.log.String(), me)
	for range 3 {
		if got, all := s.send(t, get("/api/v1/billing/balance", forged...)); len(got) != 1 || got[0] != 200 {
			t.Errorf("%v %s", got, all)
		}
	}
	if n := strings.Count(s.log.String(), me) - before; n != 3 {
		t.Errorf("3 requests of mine, and %d in the log:\n%s", n, s.log)
	}
	if got, all := s.send(t, get("/api/v1/admin/nodes", forged...)); got[0] != 403 {
		t.Errorf("%v %s", got, all)
	}
	if got, all := s.send(t, get(allocations+"?limit=1", append(forged, "X-Correlation-ID: a")...)); got[0] != 200 || strings.Contains(all, "evil") || !strings.Contains(all, "\r\nLink: </api/v1/allocations?") {
		t.Errorf("%v %s", got, all)
	}
	if got, all := s.send(t, strings.Replace(post(order, fmt.Sprintf("Content-Length: %d", len(order)), "Connection: close"), "Host: x", "Host: evil.test", 1)); got[0] != 201 || strings.Contains(all, "evil") {
		t.Errorf("%v %s", got, all)
	}
	if got, all := s.send(t, get("/api/v1/skus/none", "X-Forwarded-Proto: https")); got[0] != 404 || strings.Contains(all, "Strict-Transport") {
		t.Errorf("%v %s", got, all)
	}
}

// A guesser who claims another address with each try is one address.
func TestForgedAddressesShareABucket(t *testing.T) {
	t.Parallel()

	b := setup(t, func(_ *fixture, c *rest.Config) {
		c.Limits = func(request.Class, identity.Caller) middleware.Limit { return middleware.Limit{PerMinute: 1, Burst: 3} }
	})
	for i := range 5 {
		claim := fmt.Sprintf("10.0.0.%d", i)
		w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenUnknown, from: "[2001:db8::" + fmt.Sprint(i+1) + "]:99", header: map[string]string{
			"X-Forwarded-For": claim, "X-Real-IP": claim, "Forwarded": "for=" + claim, "True-Client-IP": claim,
		}})
		if want := map[bool]int{true: 401, false: 429}[i < 3]; w.Code != want {
			t.Errorf("try %d: %d, want %d", i, w.Code, want)
		}
	}
	if w := b.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenUnknown, from: "[2001:db8:1::1]:99"}); w.Code != 401 {
		t.Errorf("another network pays: %d", w.Code)
	}
}

// A slow connection is closed within the limit of the server.
func TestSlowSendersAreDropped(t *testing.T) {
	t.Parallel()

	s := listen(t, func(h *http.Server) {
		h.ReadHeaderTimeout, h.ReadTimeout, h.IdleTimeout = time.Second, 2*time.Second, time.Second
	})
	for name, text := range map[string]string{
		"nothing":             "",
		"half a line":         "GET /api/v1/sk",
		"half of the headers": "GET /api/v1/skus HTTP/1.1\r\nHost: x\r\nX-",
		"half a body":         post(`{"sku":`, "Content-Length: 100"),
		"half a chunk":        post("12\r\n{", "Transfer-Encoding: chunked"),
		"idle after one":      "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, all := s.send(t, text) // returns when the server hangs up, or fails at the socket's deadline
			if len(got) > 1 || len(got) == 1 && got[0] >= 500 {
				t.Errorf("%v\n%s", got, all)
			}
			s.checkServes(t)
		})
	}
}

// Connections that send nothing cost the others nothing.
func TestIdleConnectionsLeaveOthersServed(t *testing.T) {
	t.Parallel()

	s := listen(t)
	for range 500 {
		if _, err := io.WriteString(s.dial(t), "GET /api/v1/skus HTTP/1.1\r\nHost: x\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		s.checkServes(t)
	}
}

// A connection goes on after an orderly rejection.
func TestConnectionsOutliveRefusals(t *testing.T) {
	t.Parallel()

	s := listen(t)
	keep := func(text string) string { return strings.Replace(text, "Connection: close\r\n", "", 1) }
	length := fmt.Sprintf("Content-Length: %d", len(order))
	got, all := s.send(t, keep(get("/api/v1/none"))+keep(get("/api/v1/skus?x=1"))+post("{}", "Content-Length: 2")+post(order, length)+get("/api/v1/skus"))
	if want := []int{404, 400, 400, 201, 200}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v\n%s", got, want, all)
	}
}

// HEAD is GET without the body, wherever there is an end to wait for.
func TestHeadAnswersAsGet(t *testing.T) {
	t.Parallel()

	s := listen(t)
	for path, want := range map[string]int{
		"/api/v1/skus": 200, "/livez": 200, "/api/v1/skus/none": 404, "/": 200, "/api/docs": 200, "/assets/style.css": 200,
		"/api/v1/admin/nodes": 403, "/api/v1/events": 405,
	} {
		head := strings.Replace(get(path), "GET", "HEAD", 1)
		_, all := s.send(t, head)
		first, body, _ := strings.Cut(all, "\r\n\r\n")
		if !strings.HasPrefix(first, fmt.Sprintf("HTTP/1.1 %d ", want)) || body != "" {
			t.Errorf("HEAD %s: want %d without a body:\n%s", path, want, all)
		}
		if !strings.Contains(first, "X-Content-Type-Options: nosniff") || !strings.Contains(first, "Content-Security-Policy: default-src 'none'") {
			t.Errorf("HEAD %s: %s", path, first)
		}
	}
}
