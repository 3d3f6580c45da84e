//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/pgcluster"
)

// addresses returns the current addresses of up.
func (h *installation) addresses() (server, issuer string) {
	h.t.Helper()
	text, err := os.ReadFile(h.path("ready"))
	must(h.t, err)
	var ready struct {
		URL    string
		Issuer string `json:"issuer_url"`
	}
	must(h.t, decode(string(text), &ready))
	return ready.URL, ready.Issuer
}

// status sends a request with the token and returns the status code.
func status(t testing.TB, method, address, token string) int {
	t.Helper()
	r, err := http.NewRequest(method, address, nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	reply, err := caller.Do(r)
	must(t, err)
	defer reply.Body.Close()
	return reply.StatusCode
}

// post submits a form in the same way as the page of the issuer.
func post(t testing.TB, c *http.Client, address string, form url.Values) {
	t.Helper()
	r, err := http.NewRequest("POST", address, strings.NewReader(form.Encode()))
	must(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", r.URL.Scheme+"://"+r.URL.Host)
	reply, err := c.Do(r)
	must(t, err)
	defer reply.Body.Close()
	if text, err := io.ReadAll(reply.Body); err != nil || reply.StatusCode != 200 {
		t.Fatalf("%s: %d %s %v", address, reply.StatusCode, text, err)
	}
}

// session signs a user in on the issuer's page and returns the cookie.
func (h *installation) session(t testing.TB, person string) string {
	t.Helper()
	server, issuer := h.addresses()
	jar, err := cookiejar.New(nil)
	must(t, err)
	c := &http.Client{Jar: jar, Timeout: 10 * time.Second}
	reply, err := c.Get(server + "/sign-in")
	must(t, err)
	defer reply.Body.Close()
	page := reply.Request.URL
	post(t, c, issuer+"/login", url.Values{"request": page.Query()["request"], "person": {person}})
	home, err := url.Parse(server)
	must(t, err)
	for _, cookie := range jar.Cookies(home) {
		if cookie.Name == "gpuaas_session" {
			return cookie.Value
		}
	}
	t.Fatalf("%s is not signed in: %v", person, jar.Cookies(home))
	return ""
}

var userCode = regexp.MustCompile(`[A-Z]{4}-[A-Z]{4}`)

// login runs gpuaas login --device and approves it as the user.
func (h *installation) login(t testing.TB, profile, person string) {
	t.Helper()
	server, issuer := h.addresses()
	cmd := exec.Command(filepath.Join(bins, "gpuaas"), "--profile", profile, "--url", server, "--project", "default", "login", "--device", "--timeout", "30s")
	cmd.Dir, cmd.Env = h.repo, h.own()
	out, err := cmd.StderrPipe()
	must(t, err)
	// Not launch: its Wait would close the pipe under the reader.
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	code := userCode.FindString(line)
	if err != nil || code == "" {
		t.Fatalf("login printed %q, %v", line, err)
	}
	post(t, caller, issuer+"/device", url.Values{"user_code": {code}, "person": {person}})
	rest, err := io.ReadAll(lines)
	must(t, err)
	if err := cmd.Wait(); err != nil || !strings.Contains(string(rest), "as "+person) {
		t.Fatalf("login: %v\n%s", err, rest)
	}
}

// TestSignInOnTheCommandLine signs in without a browser, uses what one is billed
// for, and signs out: after that the token is worth nothing (AT-003).
func TestSignInOnTheCommandLine(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	h.start()
	const who = "builder@dev.localhost"
	h.login(t, "work", who)
	server, _ := h.addresses()
	p, err := h.profile("work")
	must(t, err)
	if got := h.cli("--profile", "work", "whoami"); got.code != 0 || !strings.Contains(got.out, who) || !strings.Contains(got.out, "dev (member)") {
		t.Fatalf("whoami: %+v", got)
	}
	got := h.cli("--profile", "work", "alloc", "create", "--sku", "t4", "--gpus", "1", "--name", "mine", "--wait", "--yes")
	if got.code != 0 {
		t.Fatalf("alloc create: %+v", got)
	}
	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	until(t, patience, "its tenant pays", func() error {
		var billed, by string
		err := db.QueryRow(t.Context(), `SELECT t.name, u.email FROM usage_records r JOIN tenants t ON t.id = r.org_id
			JOIN ledger_accounts l ON l.id = r.account_id AND l.org_id = t.id
			JOIN allocations a ON a.id = r.allocation_id JOIN users u ON u.id = a.user_id WHERE a.name = 'mine'`).Scan(&billed, &by)
		if err == nil && (billed != "dev" || by != who) {
			err = fmt.Errorf("%s pays for %s", billed, by)
		}
		return err
	})
	if got := status(t, "GET", server+"/api/v1/users/me", p.Token); got != 200 {
		t.Errorf("the token before: %d", got)
	}
	if got := h.cli("--profile", "work", "logout"); got.code != 0 {
		t.Errorf("logout: %+v", got)
	}
	if got := status(t, "GET", server+"/api/v1/users/me", p.Token); got != 401 {
		t.Errorf("the token after its logout: %d", got)
	}
	if got := h.cli("--profile", "work", "whoami"); got.code != 4 {
		t.Errorf("whoami after logout: %+v", got)
	}
}

// TestINV52LostRightClosesTheStream opens a stream for a member at one server while another server removes
// the member from the tenant.
func TestINV52LostRightClosesTheStream(t *testing.T) {
	t.Parallel()
	h := newInstallation(t)
	h.start()
	member := h.session(t, "builder@dev.localhost")
	owner := h.session(t, "dev@dev.localhost")
	h.stop()

	cluster, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: filepath.Join(h.data(), "postgres"), Durable: true})
	must(t, err)
	t.Cleanup(func() { _ = cluster.Stop(pgcluster.Immediate) })
	b := &bus{t: t, dir: h.path("bus"), port: freePort(t)}
	b.start()
	t.Cleanup(b.kill)
	nats := fmt.Sprintf("nats://127.0.0.1:%d", b.port)
	here, _ := h.serve(t, cluster.URL(), nats)
	there, _ := h.serve(t, cluster.URL(), nats)
	h.ended = make(chan struct{}) // the server is not started again
	t.Cleanup(func() { h.up = nil })

	r, err := http.NewRequestWithContext(t.Context(), "GET", here+"/api/v1/events", nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+member)
	r.Header.Set("X-Project-ID", "default")
	stream, err := http.DefaultTransport.RoundTrip(r)
	must(t, err)
	defer stream.Body.Close()
	begun := make([]byte, 1)
	if _, err := io.ReadFull(stream.Body, begun); err != nil || stream.StatusCode != 200 {
		t.Fatalf("the stream: %d, %v", stream.StatusCode, err)
	}
	closed := make(chan time.Time, 1)
	go func() {
		_, _ = io.Copy(io.Discard, stream.Body)
		closed <- time.Now()
	}()

	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	var id string
	must(t, db.QueryRow(t.Context(), "SELECT id::text FROM users WHERE email = 'builder@dev.localhost'").Scan(&id))
	select {
	case <-closed:
		t.Fatal("the stream of a member has closed")
	default:
	}
	if got := status(t, "DELETE", there+"/api/v1/tenant/members/"+id, owner); got != 204 {
		t.Fatalf("the owner removes them: %d", got)
	}
	removed := time.Now()
	select {
	case at := <-closed:
		t.Logf("closed %s after the answer", at.Sub(removed).Round(time.Millisecond))
	case <-time.After(2 * time.Second):
		t.Error("INV-52 the stream of a user who was removed is still open after 2 s")
	}
	if got := status(t, "GET", here+"/api/v1/allocations", member); got == 200 {
		t.Error("they still see the tenant's allocations")
	}
}
