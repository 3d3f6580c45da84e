//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// browser is a separate Chromium, controlled over WebDriver. WebDriver is JSON over HTTP, and the
// tests use so few of its commands that they need no library.
type browser struct {
	t       testing.TB
	session string // address of the WebDriver session
}

// newBrowser starts a browser. Without Chromium the test fails, because no other test proves that
// signing in works in a browser.
func newBrowser(t testing.TB) *browser {
	t.Helper()
	driver, err := exec.LookPath("chromedriver")
	if err != nil {
		t.Fatalf("%v: install the packages chromium and chromium-driver, or run scripts/install-deps.sh --browser", err)
	}
	dir := t.TempDir()
	port := freePort(t)
	cmd := exec.Command(driver, fmt.Sprintf("--port=%d", port))
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "TZ=UTC", "LANGUAGE=en")
	ended := launch(t, cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	b := &browser{t: t, session: fmt.Sprintf("http://127.0.0.1:%d", port)}
	until(t, patience, "chromedriver answers", func() error { return b.ask("GET", "/status", nil, nil) })
	// The sandbox needs user namespaces, and Chromium needs more shared memory than many containers
	// have. The tests open only our own pages. Without transitions a test reads final styles.
	args := []string{"--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--force-prefers-reduced-motion", "--user-data-dir=" + filepath.Join(dir, "profile")}
	var made struct {
		SessionID string `json:"sessionId"`
	}
	b.must("POST", "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"browserName": "chrome", "goog:chromeOptions": map[string]any{"args": args},
		"goog:loggingPrefs": map[string]string{"browser": "ALL"},
	}}}, &made)
	b.session += "/session/" + made.SessionID
	t.Cleanup(func() {
		if all, err := b.complaints(); err != nil || len(all) > 0 {
			t.Errorf("the browser complains: %q, %v", all, err)
		}
		_ = b.ask("DELETE", "", nil, nil)
	})
	return b
}

// ask sends one WebDriver command and decodes the value of the response into into.
func (b *browser) ask(method, path string, body, into any) error {
	var text []byte
	if method == http.MethodPost {
		if body == nil {
			body = struct{}{}
		}
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequest(method, b.session+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	reply, err := (&http.Client{Timeout: patience}).Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	var said struct{ Value json.RawMessage }
	if err := json.NewDecoder(reply.Body).Decode(&said); err != nil {
		return err
	}
	if reply.StatusCode != 200 {
		return fmt.Errorf("%s %s: %.300s", method, path, said.Value)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(said.Value, into)
}

func (b *browser) must(method, path string, body, into any) {
	b.t.Helper()
	must(b.t, b.ask(method, path, body, into))
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.must("POST", "/url", map[string]any{"url": url}, nil)
}

func (b *browser) at() (url string) {
	b.t.Helper()
	b.must("GET", "/url", nil, &url)
	return url
}

// script runs JavaScript on the page with the rights of the page.
func (b *browser) script(text string, into any) {
	b.t.Helper()
	b.must("POST", "/execute/sync", map[string]any{"script": text, "args": []any{}}, into)
}

// find waits for an element that matches the selector.
func (b *browser) find(selector string) (element string) {
	b.t.Helper()
	var found map[string]string
	if !until(b.t, patience, selector+" is on the page", func() error {
		return b.ask("POST", "/element", map[string]any{"using": "css selector", "value": selector}, &found)
	}) {
		var source string
		_ = b.ask("GET", "/source", nil, &source)
		b.t.Fatalf("%s shows\n%.2000s", b.at(), source)
	}
	for _, id := range found {
		element = id
	}
	return element
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.must("POST", "/element/"+b.find(selector)+"/click", nil, nil)
}

// shows waits until the page contains the text and its address ends with path.
func (b *browser) shows(path, words string) {
	b.t.Helper()
	until(b.t, patience, fmt.Sprintf("%s shows %q", path, words), func() error {
		var text string
		if err := b.ask("POST", "/execute/sync", map[string]any{"script": "return document.body.innerText", "args": []any{}}, &text); err != nil {
			return err
		}
		if at := b.at(); !strings.HasSuffix(at, path) || !strings.Contains(text, words) {
			return fmt.Errorf("%s shows %.500q", at, text)
		}
		return nil
	})
}

type cookie struct {
	Name, Value, SameSite string
	HTTPOnly              bool `json:"httpOnly"`
}

func (b *browser) cookies() map[string]cookie {
	b.t.Helper()
	var list []cookie
	b.must("GET", "/cookie", nil, &list)
	all := map[string]cookie{}
	for _, c := range list {
		all[c.Name] = c
	}
	return all
}

// signsIn signs in through the page of the issuer and ends on the home page.
func (b *browser) signsIn(server, person string) {
	b.t.Helper()
	b.open(server + "/sign-in")
	b.click(`button[value="` + person + `"]`)
	b.shows("/", "("+person+")")
	if b.at() != server+"/portal/" {
		b.t.Errorf("signed in at %s", b.at())
	}
}

// TestSignInInABrowser signs in as a chosen user, opens the pages, and signs out.
func TestSignInInABrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := newInstallation(t)
	h.start()
	server, _ := h.addresses()
	b.signsIn(server, "dev@dev.localhost")
	all := b.cookies()
	session := all["gpuaas_session"]
	if !session.HTTPOnly || session.SameSite != "Lax" || len(all) != 1 {
		t.Errorf("cookies %+v", all)
	}
	var readable string
	if b.script("return document.cookie", &readable); readable != "" {
		t.Errorf("a script reads %q", readable)
	}
	jobs := server + "/admin/river/"
	b.open(jobs)
	b.shows("/admin/river/", "only operators see the jobs")

	b.open(server)
	b.click(`form[action="/sign-out"] button`)
	b.shows("/", "You are not signed in")
	if got := status(t, "GET", server+"/api/v1/users/me", session.Value); got != 401 || len(b.cookies()) != 0 {
		t.Errorf("after signing out: %d, %+v", got, b.cookies())
	}
	b.open(jobs) // leads to the issuer, and back to where one wanted to go
	b.click(`button[value="operator@dev.localhost"]`)
	b.shows("/admin/river/jobs", "Running")
}

// TestFirstAdministratorInABrowser opens the link that the command line prints.
func TestFirstAdministratorInABrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := newInstallation(t)
	h.start()
	server, _ := h.addresses()
	got := h.cli("first-admin", "--email", "root@example.org")
	link := strings.TrimSpace(got.out)
	if got.code != 0 || !strings.Contains(link, "/first-admin#gpa_") {
		t.Fatalf("first-admin: %+v", got)
	}
	b.open(link)
	b.shows("/portal/", "(root@example.org)")
	b.open(server + "/?script=off")
	b.shows("/?script=off", "(root@example.org), admin on the platform")
	b.must("DELETE", "/cookie", nil, nil)
	b.open(link)
	b.shows("/first-admin", "the code is used")
	var history string
	if b.script("return location.href + document.documentElement.outerHTML", &history); strings.Contains(history, "gpa_") {
		t.Errorf("the page still shows the code")
	}
	if all := b.cookies(); len(all) != 0 {
		t.Errorf("signed in twice: %+v", all)
	}
}
