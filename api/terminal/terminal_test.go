package terminal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	api "github.com/gpuaas/gpuaas/api/terminal"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/protocol"
)

const shellOrigin = "https://gpuaas.example"

// A terminal has the size of its window, ends with the status of its shell, and leaves its rows.
func TestTerminal(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{})
	c := s.open(f.shellToken())
	c.types("hello\n")
	c.shows("> hello")
	c.says(`{"type":"resize","columns":132,"rows":50}`)
	eventually(t, "the node receives the size", func() bool {
		return strings.Contains(f.node.requests(), `window-change "\x00\x00\x00\x84\x00\x00\x002`)
	})
	c.says(`{"type":"ping"}`)
	c.until(func() bool { return c.last["type"] == "pong" })
	c.types("exit 3\n")
	if e := c.closed(); e.Code != websocket.StatusNormalClosure || e.Reason != "exited" || c.last["status"] != 3.0 {
		t.Errorf("closed with %v after %v", e, c.last)
	}
	for _, want := range []string{`pty-req "\x00\x00\x00\x0exterm-256color`, `LANG\x00\x00\x00\aC.UTF-8`} {
		if !strings.Contains(f.node.requests(), want) {
			t.Errorf("no %s in\n%s", want, f.node.requests())
		}
	}
	if want := f.caller.User.String() + "-session-" + c.id.String(); f.node.keyID != want {
		t.Errorf("the key id is %q", f.node.keyID)
	}
	f.ends(c.id, "exited")
	if got := f.text(`SELECT concat_ws(' ', exit_status, received_bytes, sent_bytes > 8, certificate, host_key ~ '^SHA256:.{43}$', connected) FROM terminal_sessions`); got != "3 13 t 7 t f" {
		t.Errorf("the row has %s", got)
	}
	if got := f.text(`SELECT string_agg(action || ' ' || correlation_id, ', ' ORDER BY at, id) FROM audit_logs WHERE action LIKE 'terminal.%'`); got != "terminal.token corr-1, terminal.open corr-1, terminal.end corr-1" {
		t.Error(got)
	}
}

func (f *fixture) ends(id uuid.UUID, reason string) {
	f.t.Helper()
	eventually(f.t, "the session ended: "+reason, func() bool {
		return f.text(`SELECT end_reason FROM terminal_sessions WHERE id = $1`, id) == reason
	})
}

// INV-51: of 100 parallel uses of a token one opens a session.
func TestINV51OneOfAHundredUses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{})
	token := f.shellToken()
	var opened, rejected atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			conn, resp, err := websocket.Dial(t.Context(), s.url+terminal.Path(terminal.Shell, f.a.ID), &websocket.DialOptions{Subprotocols: []string{api.ShellProtocol, offered(token)}})
			switch {
			case err == nil:
				opened.Add(1)
				t.Cleanup(func() { _ = conn.CloseNow() })
			case resp != nil && resp.StatusCode == http.StatusUnauthorized:
				rejected.Add(1)
			}
		})
	}
	all.Wait()
	if opened.Load() != 1 || rejected.Load() != 99 || f.text(`SELECT count(*)::text FROM terminal_sessions`) != "1" {
		t.Errorf("opened %d, rejected %d", opened.Load(), rejected.Load())
	}
}

// INV-51: a use that is rejected consumes the token, too.
func TestINV51RejectedUses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{})
	path, ours := terminal.Path(terminal.Shell, f.a.ID), http.Header{"Origin": {shellOrigin}}
	for name, c := range map[string]struct {
		path      string
		header    http.Header
		protocols []string
		origin    string // of the creation
		hide      bool   // the token is in {} only
		late      bool
		code      errs.Code
	}{
		"late":                          {late: true, code: errs.TerminalTokenInvalid},
		"another allocation":            {path: terminal.Path(terminal.Shell, ids.New[ids.Allocation]()), code: errs.TerminalTokenInvalid},
		"no allocation":                 {path: "/ws/terminal/x", code: errs.NotFound},
		"another purpose":               {path: terminal.Path(terminal.SSH, f.a.ID), protocols: []string{api.SSHProtocol}, code: errs.TerminalTokenInvalid},
		"another protocol":              {protocols: []string{api.SSHProtocol}, code: errs.BadRequest},
		"many protocols":                {protocols: append([]string{api.ShellProtocol}, strings.Fields(strings.Repeat("a ", 64))...), code: errs.BadRequest},
		"a browser's without an origin": {origin: shellOrigin, code: errs.OriginNotAllowed},
		"a program's with an origin":    {header: ours, code: errs.OriginNotAllowed},
		"null origin":                   {origin: "null", header: http.Header{"Origin": {"null"}}, code: errs.OriginNotAllowed},
		"other scheme":                  {origin: "http://gpuaas.example", header: http.Header{"Origin": {"http://gpuaas.example"}}, code: errs.OriginNotAllowed},
		"other port":                    {origin: shellOrigin, header: http.Header{"Origin": {shellOrigin + ":444"}}, code: errs.OriginNotAllowed},
		"subdomain":                     {origin: shellOrigin, header: http.Header{"Origin": {"https://a.gpuaas.example"}}, code: errs.OriginNotAllowed},
		"query":                         {path: path + "?token={}", hide: true, code: errs.TokenInURL},
		"escaped query":                 {path: path + "?token=%67pt_{4}", hide: true, code: errs.TokenInURL},
		"path":                          {path: "/ws/terminal/{}", hide: true, code: errs.TokenInURL},
		"cookie":                        {header: http.Header{"Cookie": {"t={}"}}, hide: true, code: errs.TokenInURL},
		"referrer":                      {header: http.Header{"Referer": {"https://x/?{}"}}, hide: true, code: errs.TokenInURL},
		"two places":                    {header: http.Header{"Authorization": {"Bearer {}"}}, code: errs.BadRequest},
	} {
		token := f.token(terminal.TokenRequest{Purpose: terminal.Shell, Origin: c.origin})
		if c.late {
			f.exec(`UPDATE terminal_tokens SET expires_at = now()`)
		}
		fill := func(text string) string { return strings.NewReplacer("{}", token, "{4}", token[4:]).Replace(text) }
		header := http.Header{}
		for k, v := range c.header {
			header.Set(k, fill(v[0]))
		}
		if c.path == "" {
			c.path = path
		}
		if c.protocols == nil {
			c.protocols = []string{api.ShellProtocol}
		}
		sent := token
		if c.hide {
			sent = ""
		}
		conn, resp := s.dial(fill(c.path), sent, header, c.protocols...)
		if conn != nil {
			t.Errorf("%s: opened", name)
			continue
		}
		var problem struct{ Code errs.Code }
		if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil || problem.Code != c.code {
			t.Errorf("%s: got %s %s %v", name, resp.Status, problem.Code, err)
		}
		if f.text(`SELECT count(*)::text FROM terminal_tokens`) != "0" {
			t.Errorf("%s: the token is still valid", name)
		}
	}
	if f.node.dials.Load() != 0 {
		t.Error("the node was dialled")
	}
	conn, _ := s.dial(path, f.token(terminal.TokenRequest{Purpose: terminal.Shell, Origin: shellOrigin}), ours, api.ShellProtocol)
	if conn == nil || conn.Subprotocol() != api.ShellProtocol {
		t.Error("a browser's token does not open a terminal in its page")
	}
}

// INV-52: each cause ends the sessions of two servers within two seconds, one of which receives only hints, and the other none.
func TestINV52EachCauseEndsSessions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cause  func(*fixture)
		topic  string
		reason terminal.Reason
		code   websocket.StatusCode
	}{
		"sign-out":      {func(f *fixture) { f.exec(`UPDATE sessions SET ended_at = now()`) }, identity.Topic, terminal.SignedOut, 4401},
		"disabled user": {func(f *fixture) { f.exec(`UPDATE users SET disabled_at = now() WHERE id = $1`, f.caller.User) }, identity.Topic, terminal.UserDisabled, 4401},
		"lost role": {func(f *fixture) {
			f.exec(`UPDATE tenant_memberships SET role = 'viewer' WHERE user_id = $1`, f.caller.User)
			f.exec(`DELETE FROM project_memberships WHERE user_id = $1`, f.caller.User)
		}, identity.Topic, terminal.RightLost, 4401},
		"lost membership": {func(f *fixture) {
			f.exec(`DELETE FROM tenant_memberships WHERE user_id = $1; `, f.caller.User)
			f.exec(`DELETE FROM project_memberships WHERE user_id = $1`, f.caller.User)
		}, identity.Topic, terminal.RightLost, 4401},
		"release": {func(f *fixture) {
			if _, err := f.Allocations.Release(f.t.Context(), f.Caller, identity.Key{}, f.a.ID, nil); err != nil {
				f.t.Error(err)
			}
		}, event.Topic, terminal.AllocationEnded, 4404},
		"revoked node": {func(f *fixture) { f.exec(`UPDATE certificates SET status = 'revoked', revoked_at = now()`) }, event.Topic, terminal.NodeUnavailable, 1013},
		"stale node":   {func(f *fixture) { f.exec(`UPDATE nodes SET reachability = 'stale'`) }, event.Topic, terminal.NodeUnavailable, 1013},
		"an operator": {func(f *fixture) {
			for _, id := range f.openSessions() {
				if err := f.tokens.RequestEnd(f.scope(), identity.Change[struct{}]{Caller: f.caller}, id, ids.Project{}, uuid.Nil, terminal.EndedByOperator); err != nil {
					f.t.Error(err)
				}
			}
		}, terminal.Topic, terminal.EndedByOperator, 4404},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			polls, hinted := f.serve(api.Times{}), f.serve(api.Times{Watch: time.Hour, Unobserved: 2 * time.Hour})
			terms := []*term{polls.open(f.shellToken()), hinted.open(f.shellToken())}
			begun := clock.Clock{}.Now()
			c.cause(f)
			hinted.Hints.Send(c.topic)
			for i, one := range terms {
				if e := one.closed(); e.Code != c.code || e.Reason != string(c.reason) || one.last["reason"] != string(c.reason) {
					t.Errorf("%d: closed with %v after %v", i, e, one.last)
				}
				f.ends(one.id, string(c.reason))
			}
			if took := (clock.Clock{}).Now().Sub(begun); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// TestTheNodeIsFasterThanTheWatcher releases an allocation whose node ends the shell before the watcher reads the release.
func TestTheNodeIsFasterThanTheWatcher(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{Watch: time.Hour, Unobserved: 2 * time.Hour})
	before, after := s.open(f.shellToken()), s.open(f.shellToken())
	before.types("cut\n")
	if e := before.closed(); e.Reason != string(terminal.StreamLost) {
		t.Errorf("without a release: %v", e)
	}
	if _, err := f.Allocations.Release(t.Context(), f.Caller, identity.Key{}, f.a.ID, nil); err != nil {
		t.Fatal(err)
	}
	after.types("cut\n")
	if e := after.closed(); e.Reason != string(terminal.AllocationEnded) || e.Code != 4404 {
		t.Errorf("after the release: %v", e)
	}
}

// TestForwardingIsNotAllowedAnyMore ends SSH connections, and no terminals, after a change of the policy.
func TestForwardingIsNotAllowedAnyMore(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{Watch: 100 * time.Millisecond})
	shell := s.open(f.shellToken())
	conn, _ := s.dial(terminal.Path(terminal.SSH, f.a.ID), f.token(terminal.TokenRequest{Purpose: terminal.SSH}), nil, api.SSHProtocol)
	f.unforwarded.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			if websocket.CloseStatus(err) != 4401 {
				t.Error(err)
			}
			break
		}
	}
	shell.types("goes on\n")
	shell.shows("> goes on")
}

func (f *fixture) openSessions() (all []uuid.UUID) {
	list, err := f.tokens.List(f.scope(), terminal.Filter{Status: "open", Limit: 10})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, one := range list {
		all = append(all, one.ID)
	}
	return all
}

// A page that loads again has its terminal, without the queries of the program. The window before it learns that.
func TestReloadResumes(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{Detached: 300 * time.Millisecond})
	c := s.open(f.shellToken())
	c.types("print \"before\\u001b[6n\\u001b]11;?\\u0007after\"\n")
	c.shows("after")
	if !strings.Contains(c.out.String(), "\x1b[6n") {
		t.Error("the live output is filtered")
	}
	second := s.open(f.token(terminal.TokenRequest{Purpose: terminal.Shell, Resumes: c.id}))
	if second.id != c.id || second.last["resumed"] != true {
		t.Errorf("got %v", second.last)
	}
	second.shows("beforeafter")
	if e := c.closed(); e.Code != 4409 {
		t.Errorf("the first window was closed with %v", e)
	}
	second.types("live\n")
	second.shows("> live")
	_ = second.conn.Close(websocket.StatusGoingAway, "")
	third := s.open(f.token(terminal.TokenRequest{Purpose: terminal.Shell, Resumes: c.id}))
	third.shows("> live")
	_ = third.conn.CloseNow()
	f.ends(c.id, "disconnected")
	// What has ended is gone, and so is a session of a server that is not there.
	_, err := f.tokens.CreateToken(f.scope(), identity.Change[terminal.Token]{Caller: f.caller}, f.a, terminal.TokenRequest{Purpose: terminal.Shell, Resumes: c.id})
	if errs.CodeOf(err) != errs.NotFound {
		t.Errorf("got %v", err)
	}
}

// The terminal logs in only where the host key is one that the node has reported. The client reads the reason.
func TestTheHostKeyIsTheReportedOne(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{})
	other, _ := newKey(t)
	for name, c := range map[string]struct {
		keys   []string
		reason string
	}{
		"another key":     {[]string{protocol.HostKeyLine(other)}, "which it has not reported"},
		"no key":          {nil, "has reported no SSH host key"},
		"text and no key": {[]string{"x"}, "has reported no SSH host key"},
	} {
		f.reports(c.keys...)
		conn, resp := s.dial("/ws/terminal/"+f.a.ID.String(), f.shellToken(), nil, api.ShellProtocol)
		if conn == nil {
			t.Fatalf("%s: %s", name, resp.Status)
		}
		w := &term{t: t, conn: conn}
		if e := w.closed(); e.Reason != string(terminal.ConnectFailed) || !strings.Contains(fmt.Sprint(w.last["message"]), c.reason) {
			t.Errorf("%s: %v after %v", name, e, w.last)
		}
	}
	f.reports(protocol.HostKeyLine(other), f.node.keys[0])
	s.open(f.shellToken()).shows("$ ")
}

// An SSH client reaches the node through the websocket, and a closed input arrives there.
func TestSSHThroughTheWebSocket(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{})
	conn, _ := s.dial(terminal.Path(terminal.SSH, f.a.ID), f.token(terminal.TokenRequest{Purpose: terminal.SSH}), nil, api.SSHProtocol)
	_, first, err := conn.Read(t.Context())
	if err != nil || !strings.Contains(string(first), `"type":"session"`) {
		t.Fatalf("%s %v", first, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, private := newKey(t)
	login, err := f.node.sign(ctx, private.PublicKey(), f.a.ID, "u", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	parsed, _, _, _, _ := ssh.ParseAuthorizedKey([]byte(login.Certificate))
	signer, _ := ssh.NewCertSigner(parsed.(*ssh.Certificate), private)
	client, channels, requests, err := ssh.NewClientConn(websocket.NetConn(ctx, conn, websocket.MessageBinary), "n", &ssh.ClientConfig{
		User: "u", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	session, err := ssh.NewClient(client, channels, requests).NewSession()
	if err != nil {
		t.Fatal(err)
	}
	session.Stdin = strings.NewReader(strings.Repeat("0123456789\n", 20_000) + "exit 0\n")
	out, err := session.Output("cat")
	if err != nil || len(out) != 2+20_000*14 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	_ = client.Close()
	eventually(t, "the session ended", func() bool { return f.text(`SELECT end_reason FROM terminal_sessions`) == "closed" })
}

// The server closes clients that break the protocol or do not read, and idle sessions.
func TestAbuse(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{Watch: 50 * time.Millisecond, Patience: 300 * time.Millisecond})
	for name, c := range map[string]struct {
		do   func(*term)
		code websocket.StatusCode
	}{
		"no columns":      {func(c *term) { c.says(`{"type":"resize","columns":0,"rows":24}`) }, websocket.StatusPolicyViolation},
		"many columns":    {func(c *term) { c.says(`{"type":"resize","columns":100000,"rows":24}`) }, websocket.StatusPolicyViolation},
		"torn UTF-8":      {func(c *term) { c.says("{\"type\":\"ping\xc3\"}") }, websocket.StatusPolicyViolation},
		"no JSON":         {func(c *term) { c.says(`resize`) }, websocket.StatusPolicyViolation},
		"unknown type":    {func(c *term) { c.says(`{"type":"exec"}`) }, websocket.StatusPolicyViolation},
		"a large message": {func(c *term) { c.types(strings.Repeat("x", 65<<10)) }, websocket.StatusMessageTooBig},
		"many resizes": {func(c *term) {
			for range 10_000 {
				c.says(`{"type":"resize","columns":80,"rows":24}`)
			}
		}, websocket.StatusPolicyViolation},
	} {
		one := s.open(f.shellToken())
		c.do(one)
		if e := one.closed(); e.Code != c.code {
			t.Errorf("%s: closed with %v", name, e)
		}
		f.exec(`UPDATE terminal_sessions SET end_wanted = 'ended_by_user', end_by = 'a' WHERE id = $1`, one.id)
		f.ends(one.id, "ended_by_user") // the terminal goes on without its client
	}
	slow := s.open(f.shellToken())
	slow.types(strings.Repeat("flood\n", 8) + "mark\n")
	eventually(t, "the slow client was disconnected, and its program goes on", func() bool { return strings.Contains(f.node.requests(), "mark") })
	f.limits.Idle = 50 * time.Millisecond
	idle := s.open(f.shellToken())
	if e := idle.closed(); e.Code != 4408 {
		t.Errorf("an idle terminal was closed with %v", e)
	}
}

// Limits apply to tokens and to sessions.
func TestLimits(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{})
	f.limits.PerAllocation = 1
	first, second := f.shellToken(), f.shellToken()
	s.open(first)
	conn, resp := s.dial(terminal.Path(terminal.Shell, f.a.ID), second, nil, api.ShellProtocol)
	if conn != nil || resp.StatusCode != http.StatusTooManyRequests {
		t.Error("a second session was opened")
	}
	if _, err := f.tokens.CreateToken(f.scope(), identity.Change[terminal.Token]{Caller: f.caller}, f.a, terminal.TokenRequest{Purpose: terminal.SSH}); errs.CodeOf(err) != errs.ConcurrencyLimitReached {
		t.Errorf("got %v", err)
	}
}

// A token never outlives the session that created it.
func TestTokenEndsWithTheSignIn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{})
	f.exec(`UPDATE sessions SET expires_at = now() + interval '5 seconds'`)
	token := f.shellToken()
	if got := f.text(`SELECT (expires_at < now() + interval '6 seconds')::text FROM terminal_tokens`); got != "true" {
		t.Error("the token is valid for longer")
	}
	f.exec(`UPDATE sessions SET ended_at = now()`)
	if conn, resp := s.dial(terminal.Path(terminal.Shell, f.a.ID), token, nil, api.ShellProtocol); conn != nil || resp.StatusCode != http.StatusForbidden {
		t.Error("the token was accepted after the sign-out")
	}
	f.caller.Session = ids.Session{}
	if _, err := f.tokens.CreateToken(f.scope(), identity.Change[terminal.Token]{Caller: f.caller}, f.a, terminal.TokenRequest{Purpose: terminal.Shell}); errs.CodeOf(err) != errs.Forbidden {
		t.Errorf("got %v", err)
	}
}

// Without the database all sessions are closed; after a restart each client receives 1012; those of a dead server are lost.
func TestServersThatStop(t *testing.T) {
	t.Parallel()
	f := setup(t)
	blind, restarts := f.serve(api.Times{Watch: 100 * time.Millisecond, Unobserved: 500 * time.Millisecond}), f.serve(api.Times{})
	a, b := blind.open(f.shellToken()), restarts.open(f.shellToken())
	blind.db.Close()
	if e := a.closed(); e.Code != websocket.StatusTryAgainLater || e.Reason != "unavailable" {
		t.Errorf("closed with %v", e)
	}
	f.exec(`UPDATE terminal_instances SET seen_at = now() - interval '1 minute' WHERE id = (SELECT instance_id FROM terminal_sessions WHERE id = $1)`, a.id)
	if _, err := restarts.Sessions.Beat(t.Context(), uuid.New()); err != nil {
		t.Fatal(err)
	}
	f.ends(a.id, "lost")
	go restarts.stop()
	if e := b.closed(); e.Code != websocket.StatusServiceRestart {
		t.Errorf("closed with %v", e)
	}
	f.ends(b.id, "restarted")
}

// A node that is not reached, and one that rejects the login, are reported to the client.
func TestConnectFailures(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{})
	other := newHost(t, f.a.ID)
	s.Sign = other.sign // of an authority that the node does not know
	conn, _ := s.dial(terminal.Path(terminal.Shell, f.a.ID), f.shellToken(), nil, api.ShellProtocol)
	c := &term{t: t, conn: conn}
	if e := c.closed(); e.Code != websocket.StatusTryAgainLater || !strings.Contains(fmt.Sprint(c.last["message"]), "unable to authenticate") {
		t.Errorf("closed with %v after %v", e, c.last)
	}
}

// INV-54: the database contains no token, no key and nothing that a user has typed.
func TestINV54NothingIsStored(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{})
	used, unused := f.shellToken(), f.shellToken()
	c := s.open(used)
	c.types("very-secret-input\n")
	c.shows("very-secret-input")
	dump := f.text(`SELECT string_agg(query_to_xml(format('SELECT * FROM %s', c.oid::regclass), true, false, '')::text, '') FROM pg_class c
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`)
	for _, secret := range []string{used, unused, used[4:], "very-secret-input", "PRIVATE KEY"} {
		if strings.Contains(dump, secret) {
			t.Errorf("the database contains %q", secret)
		}
	}
	if !strings.Contains(dump, c.id.String()) {
		t.Error("the scan does not see the session")
	}
}

// A server alone on its listener is ready while it is registered, and alive without the database.
func TestHealth(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.serve(api.Times{Watch: time.Hour})
	status := func(path string) int {
		w := httptest.NewRecorder()
		s.WithHealth(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return w.Code
	}
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/": 404, "/api/v1/skus": 404} {
		if got := status(path); got != want {
			t.Errorf("%s: %d", path, got)
		}
	}
	f.exec(`DELETE FROM terminal_instances`)
	if live, ready := status("/livez"), status("/readyz"); live != 200 || ready != 503 {
		t.Errorf("without a row: livez %d, readyz %d", live, ready)
	}
}
