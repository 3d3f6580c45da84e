package terminal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	api "github.com/gpuaas/gpuaas/api/terminal"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/product/terminal/recording"
)

const announced = "This session is recorded.\r\n"

// record sets the policy.
func (f *fixture) record(mode terminal.Recording) { f.recording.Store(mode) }

// recorded starts a server that records.
func (f *fixture) recorded(mode terminal.Recording) *server {
	f.t.Helper()
	f.record(mode)
	f.limits.RecordingMax = 1 << 20
	seal := identitytest.Seal(f.t)
	s := f.serve(api.Times{Watch: 50 * time.Millisecond}, func(s *api.Server) {
		s.Recordings = &recording.Service{DB: pgtest.As(f.t, f.DB, "gpuaas_terminal"), Seal: seal, Naming: ids.DefaultNaming, Patience: time.Second}
	})
	f.reader = &recording.Service{DB: pgtest.Scoped(f.t, f.DB), Seal: seal, Naming: ids.DefaultNaming}
	return s
}

// cast returns the recorded output of a session that has ended.
func (f *fixture) cast(c *term) (lines, output string) {
	f.t.Helper()
	eventually(f.t, "the recording ends", func() bool {
		return f.text(`SELECT count(*)::text FROM terminal_recordings WHERE id = $1 AND ended_at IS NOT NULL`, c.id) == "1"
	})
	write, err := f.reader.Open(f.scope(), audit.By{Actor: "user:x"}, c.id, f.caller.Project)
	if err != nil {
		f.t.Fatal(err)
	}
	var text bytes.Buffer
	if err := write(f.scope(), &text); err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		var event []any
		if json.Unmarshal([]byte(line), &event) == nil && event[1] == "o" {
			output += event[2].(string)
		}
	}
	return text.String(), output
}

// A required recording equals what the client has displayed, begins with a line that states it, and contains nothing of what was
// typed. The database contains neither.
func TestARequiredRecordingEqualsTheScreen(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.recorded(terminal.RecordAlways)
	c := s.open(f.shellToken())
	if c.last["recorded"] != true {
		t.Errorf("the client is not informed: %v", c.last)
	}
	c.says(`{"type":"resize","columns":132,"rows":43}`)
	c.types(`print "typed-and-printed \u001b[31mred \u001b[?1049h\u001b[2J\u001b[6n 日本 grüße"` + "\n")
	c.shows("grüße")
	c.types("mark\n") // the node does not echo it
	c.types("flood\n")
	c.until(func() bool { return c.out.Len() > 500_000 })
	c.types("exit 3\n")
	if e := c.closed(); e.Code != websocket.StatusNormalClosure && e.Code != 4404 {
		t.Errorf("closed with %v after %v", e, c.last)
	}
	lines, output := f.cast(c)
	if screen := c.out.String(); !strings.HasPrefix(screen, announced) || output != screen {
		t.Errorf("%d bytes are recorded and %d were displayed; the first ones are %q", len(output), len(screen), screen[:min(80, len(screen))])
	}
	if strings.Contains(lines, "mark") || !strings.Contains(lines, `"r", "132x43"`) {
		t.Error("the recording contains input, or no size")
	}
	dump := f.text(`SELECT string_agg(query_to_xml(format('SELECT * FROM %s', c.oid::regclass), true, false, '')::text, '') FROM pg_class c
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`)
	if strings.Contains(dump, "typed-and-printed") || strings.Contains(dump, "mark\n") {
		t.Error("the database contains output or input")
	}
	if n := f.text(`SELECT count(*)::text FROM terminal_recording_chunks WHERE position('typed-and-printed'::bytea IN body) > 0`); n != "0" {
		t.Error("a chunk contains plaintext")
	}
}

// The server cannot read SSH of the client, so a required recording rejects it.
func TestARequiredRecordingRejectsSSH(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.recorded("off")
	early := f.token(terminal.TokenRequest{Purpose: terminal.SSH})
	f.record(terminal.RecordAlways)
	_, err := f.tokens.CreateToken(f.scope(), identity.Change[terminal.Token]{Caller: f.caller}, f.a, terminal.TokenRequest{Purpose: terminal.SSH})
	if errs.CodeOf(err) != errs.PolicyDenied || !strings.Contains(suggestion(err), "gpuaas terminal") {
		t.Errorf("%v", err)
	}
	conn, resp := s.dial(terminal.Path(terminal.SSH, f.a.ID), early, nil, api.SSHProtocol)
	if conn != nil {
		t.Fatal("a token of before the change opens SSH")
	}
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "policy_denied") {
		t.Errorf("%s: %s", resp.Status, body)
	}
}

// A change of the policy to required ends the sessions that have no recording, and no other one.
func TestAChangedPolicyEndsUnrecordedSessions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.recorded("off")
	bare := s.open(f.shellToken())
	if bare.last["recorded"] != false {
		t.Errorf("%v", bare.last)
	}
	f.record(terminal.RecordTerminals)
	with := s.open(f.shellToken())
	with.shows("$ ")
	ssh, _ := s.dial(terminal.Path(terminal.SSH, f.a.ID), f.token(terminal.TokenRequest{Purpose: terminal.SSH}), nil, api.SSHProtocol)
	if ssh == nil {
		t.Fatal("SSH is rejected without need")
	}
	f.record(terminal.RecordAlways)
	begun := time.Now()
	for _, c := range []*term{bare, {t: t, conn: ssh}} {
		_ = c.closed()
		if c.last["reason"] != "recording_required" {
			t.Errorf("%v", c.last)
		}
	}
	if d := time.Since(begun); d > 2*time.Second {
		t.Errorf("the sessions ended after %v", d)
	}
	with.types("still here\n")
	with.shows("> still here")
}

// A recording that cannot begin, or cannot be stored, ends a session that must be recorded. Another one states it and continues.
func TestFailuresOfRecordings(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.recorded(terminal.RecordTerminals)
	rights := func(verb string) { f.exec(verb + ` gpuaas_terminal`) }
	optional := s.open(f.shellToken())
	optional.shows("$ ")
	rights(`REVOKE INSERT ON terminal_recordings, terminal_recording_chunks FROM`)
	optional.types("more\n")
	optional.shows("This session is no longer recorded.")
	optional.types("and more\n")
	optional.shows("> and more")
	fresh := s.open(f.shellToken())
	fresh.shows("This session is not recorded")
	fresh.types("works\n")
	fresh.shows("> works")

	f.record(terminal.RecordAlways)
	conn, _ := s.dial(terminal.Path(terminal.Shell, f.a.ID), f.shellToken(), nil, api.ShellProtocol)
	late := &term{t: t, conn: conn}
	_ = late.closed()
	if late.last["reason"] != "recording_failed" || late.out.Len() > 0 {
		t.Errorf("%v after %q", late.last, late.out.String())
	}
	rights(`GRANT INSERT ON terminal_recordings, terminal_recording_chunks TO`)
	required := s.open(f.shellToken())
	required.shows("$ ")
	rights(`REVOKE INSERT ON terminal_recordings, terminal_recording_chunks FROM`)
	required.types("more\n")
	_ = required.closed()
	if required.last["reason"] != "recording_failed" {
		t.Errorf("%v", required.last)
	}
}

func TestTheMaximumSizeOfARecording(t *testing.T) {
	t.Parallel()
	f := setup(t)
	s := f.recorded(terminal.RecordAlways)
	c := s.open(f.shellToken())
	c.types("flood\n")
	if e := c.closed(); e.Code != 4404 || c.last["reason"] != "recording_full" || c.out.Len() > 1<<20 {
		t.Errorf("%v, %v, %d bytes", e, c.last, c.out.Len())
	}
	if _, output := f.cast(c); output != c.out.String() {
		t.Errorf("%d bytes are recorded and %d were displayed", len(output), c.out.Len())
	}
}

func suggestion(err error) string {
	if e, ok := errors.AsType[*errs.Error](err); ok {
		return e.Suggestion
	}
	return ""
}
