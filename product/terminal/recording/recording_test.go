package recording_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/product/terminal/recording"
)

// fixture is a database with a server that records and one that reads.
type fixture struct {
	t       *testing.T
	db      *pgxpool.Pool
	keys    *envelope.Ring
	writer  *recording.Service
	reader  *recording.Service
	session terminal.Opened
	failed  chan recording.Failure
	must    atomic.Bool
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, db: pgtest.Clone(t), keys: envelope.NewRandomRing(), failed: make(chan recording.Failure, 10)}
	seal := secret.Fields{Ring: f.keys}
	f.writer = &recording.Service{DB: pgtest.As(t, f.db, "gpuaas_terminal"), Seal: seal, Naming: ids.DefaultNaming, Patience: time.Second}
	f.reader = &recording.Service{DB: pgtest.Scoped(t, f.db), Seal: seal, Naming: ids.DefaultNaming}
	f.session = terminal.Opened{Session: terminal.Session{
		ID: uuid.Must(uuid.NewV7()), Allocation: ids.New[ids.Allocation](),
		Holder: terminal.Holder{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project](), Principal: uuid.Must(uuid.NewV7()), CorrelationID: "c"},
	}}
	return f
}

func (f *fixture) begin(most int64) *recording.Recorder {
	f.t.Helper()
	r, err := f.writer.Begin(f.t.Context(), f.session, recording.Options{
		Columns: 80, Rows: 24, MaxBytes: most, Required: f.must.Load, Failed: func(why recording.Failure) { f.failed <- why },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) scope(tenant ids.Tenant) context.Context {
	return pg.WithScope(f.t.Context(), pg.Scope{Tenant: tenant.String(), Principal: f.session.Principal.String()})
}

func (f *fixture) exec(sql string) {
	f.t.Helper()
	if _, err := f.db.Exec(f.t.Context(), sql); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) count(sql string, args ...any) (n int) {
	f.t.Helper()
	if err := f.db.QueryRow(f.t.Context(), sql, args...).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// read returns the asciicast of the recording.
func (f *fixture) read() string {
	f.t.Helper()
	ctx := f.scope(f.session.Tenant)
	write, err := f.reader.Open(ctx, audit.By{Actor: "user:x", CorrelationID: "r"}, f.session.ID, f.session.Project)
	if err != nil {
		f.t.Fatal(err)
	}
	var text bytes.Buffer
	if err := write(ctx, &text); err != nil {
		f.t.Fatal(err)
	}
	return text.String()
}

// play returns what a player prints, and the sizes.
func play(t *testing.T, text string) (output string, sizes []string) {
	t.Helper()
	var header struct{ Version, Width, Height int }
	first, rest, _ := strings.Cut(text, "\n")
	if err := json.Unmarshal([]byte(first), &header); err != nil || header.Version != 2 || header.Width != 80 || header.Height != 24 {
		t.Fatalf("%q: %v", first, err)
	}
	last := 0.0
	for line := range strings.Lines(rest) {
		var event []any
		if err := json.Unmarshal([]byte(line), &event); err != nil || len(event) != 3 || event[0].(float64) < last {
			t.Fatalf("%q after %f: %v", line, last, err)
		}
		last = event[0].(float64)
		if event[1] == "r" {
			sizes = append(sizes, event[2].(string))
		} else {
			output += event[2].(string)
		}
	}
	return output, sizes
}

// A recording plays back exactly what was printed, however the output is divided, and the database does not contain it.
func TestRecordingsPlayBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.must.Store(true)
	r := f.begin(1 << 20)
	all := strings.Repeat("top-secret grüße 日本語 🙂 <&> \x1b[31m\x07\r\n", 15_000)
	for rest := []byte(all); len(rest) > 0; {
		part := rest[:min(len(rest), 1+rand.IntN(900))]
		if rest = rest[len(part):]; !r.Output(part) {
			t.Fatal("the recording ended")
		}
	}
	r.Resize(132, 43)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	output, sizes := play(t, f.read())
	if output != all || !slices.Equal(sizes, []string{"132x43"}) {
		t.Errorf("%d bytes, want %d; sizes %v", len(output), len(all), sizes)
	}
	if n := f.count(`SELECT count(*) FROM terminal_recording_chunks`); n < 2 {
		t.Errorf("%d chunks", n)
	}
	if n := f.count(`SELECT count(*) FROM terminal_recording_chunks WHERE position('top-secret'::bytea IN body) > 0`); n != 0 {
		t.Error("the database contains output")
	}
	list, err := f.reader.List(f.scope(f.session.Tenant), recording.Filter{Project: f.session.Project, Limit: 10})
	if err != nil || len(list) != 1 || list[0].Status != "complete" || list[0].Bytes != int64(len(all)) || list[0].EndedAt == nil {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err = f.reader.List(f.scope(f.session.Tenant), recording.Filter{Limit: 10}); err != nil || len(list) != 1 {
		t.Errorf("an owner of the tenant reads %d recordings of all projects, %v", len(list), err)
	}
	if list, err = f.reader.List(f.scope(ids.New[ids.Tenant]()), recording.Filter{Limit: 10}); err != nil || len(list) != 0 {
		t.Errorf("another tenant reads %d recordings, %v", len(list), err)
	}
	if n := f.count(`SELECT count(*) FROM audit_logs WHERE action = 'terminal.recording_read' AND actor = 'user:x' AND target_urn LIKE '%:recording:' || $1`, f.session.ID.String()); n != 1 {
		t.Errorf("%d audit rows of one read", n)
	}
}

// Another tenant, another project and another key read nothing, and no audit row is written.
func TestRecordingsOfOthers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := f.begin(1000)
	r.Output([]byte("x"))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	stranger := *f.reader
	stranger.Seal = secret.Fields{Ring: envelope.NewRandomRing()}
	for what, c := range map[string]struct {
		reader  *recording.Service
		tenant  ids.Tenant
		project ids.Project
		code    errs.Code
	}{
		"another tenant":                   {f.reader, ids.New[ids.Tenant](), f.session.Project, errs.NotFound},
		"another tenant without a project": {f.reader, ids.New[ids.Tenant](), ids.Project{}, errs.NotFound},
		"another project":                  {f.reader, f.session.Tenant, ids.New[ids.Project](), errs.NotFound},
		"another key":                      {&stranger, f.session.Tenant, f.session.Project, errs.DecryptionFailed},
	} {
		if _, err := c.reader.Open(f.scope(c.tenant), audit.By{Actor: "user:x"}, f.session.ID, c.project); errs.CodeOf(err) != c.code {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := f.count(`SELECT count(*) FROM audit_logs`); n != 0 {
		t.Errorf("%d audit rows", n)
	}
}

// A chunk that was moved or exchanged does not open.
func TestMovedChunksDoNotOpen(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := f.begin(1 << 20)
	r.Output(bytes.Repeat([]byte("x"), 200<<10))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE terminal_recording_chunks SET number = number + 7`)
	f.exec(`UPDATE terminal_recordings SET chunks = chunks + 7`)
	f.exec(`INSERT INTO terminal_recording_chunks (recording_id, number, org_id, body) SELECT recording_id, n, org_id, body FROM terminal_recording_chunks, generate_series(0, 6) n WHERE number = 7`)
	write, err := f.reader.Open(f.scope(f.session.Tenant), audit.By{Actor: "user:x"}, f.session.ID, f.session.Project)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(f.scope(f.session.Tenant), &bytes.Buffer{}); errs.CodeOf(err) != errs.DecryptionFailed {
		t.Errorf("a moved chunk: %v", err)
	}
}

func TestARecordingWithoutOutputPlays(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.begin(100)
	if output, sizes := play(t, f.read()); output != "" || len(sizes) != 0 {
		t.Errorf("%q, %v", output, sizes)
	}
}

func TestTheMaximumSizeEndsARecording(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := f.begin(100)
	if !r.Output(make([]byte, 100)) || r.Output([]byte("x")) || r.Output([]byte("y")) || r.Recording() {
		t.Fatal("more than the maximum was recorded")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if why := <-f.failed; why != recording.Full || len(f.failed) != 0 {
		t.Errorf("ended by %s, and %d more", why, len(f.failed))
	}
	list, err := f.reader.List(f.scope(f.session.Tenant), recording.Filter{Project: f.session.Project, Limit: 10})
	if err != nil || len(list) != 1 || list[0].Status != "incomplete" || list[0].Incomplete != recording.Full {
		t.Errorf("%+v, %v", list, err)
	}
	if output, _ := play(t, f.read()); output != strings.Repeat("\x00", 100) {
		t.Errorf("%q", output)
	}
}

// A database that does not store ends the recording after the patience.
func TestAFailureEndsARecording(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := f.begin(1 << 20)
	f.exec(`REVOKE INSERT ON terminal_recording_chunks FROM gpuaas_terminal`)
	r.Output([]byte("x"))
	select {
	case why := <-f.failed:
		if why != recording.Failed || r.Output([]byte("y")) {
			t.Errorf("ended by %s", why)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the failure was not noticed")
	}
	_ = r.Close()
}

// While the database is slow, a required recording delays the output and loses nothing, and another one ends at once.
func TestASlowDatabase(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{true, false} {
		f := setup(t)
		f.writer.Patience = 10 * time.Second
		f.must.Store(required)
		r := f.begin(1 << 30)
		tx, err := f.db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `LOCK TABLE terminal_recording_chunks IN ACCESS EXCLUSIVE MODE`); err != nil {
			t.Fatal(err)
		}
		var written atomic.Int64
		done := make(chan bool)
		go func() {
			part := bytes.Repeat([]byte("z"), 32<<10)
			ok := true
			for range 64 {
				if ok = ok && r.Output(part); ok {
					written.Add(int64(len(part)))
				}
			}
			done <- ok
		}()
		if required {
			time.Sleep(500 * time.Millisecond)
			if n := written.Load(); n > 1<<20 {
				t.Errorf("%d bytes wait in memory", n)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case ok := <-done:
			if ok != required {
				t.Errorf("required %v: recorded %v", required, ok)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("required %v: the output does not go on", required)
		}
		_ = tx.Rollback(t.Context())
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if output, _ := play(t, f.read()); int64(len(output)) != written.Load() {
			t.Errorf("required %v: %d bytes are stored of %d", required, len(output), written.Load())
		}
		if !required {
			if why := <-f.failed; why != recording.Slow {
				t.Errorf("ended by %s", why)
			}
		}
	}
}

// A rotation seals the keys of recordings again, and they open with the newest key alone.
func TestKeysAreSealedAgain(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := f.begin(1000)
	r.Output([]byte("before"))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	old, next := envelope.NewKey(), envelope.NewKey()
	rotate := func(keys map[string][]byte, active string) {
		t.Helper()
		if err := f.keys.Replace(keys, active); err != nil {
			t.Fatal(err)
		}
	}
	rotate(map[string][]byte{"k1": old}, "k1")
	if err := f.redo(); err != nil {
		t.Fatal(err)
	}
	rotate(map[string][]byte{"k1": old, "k2": next}, "k2")
	if n, err := recording.SealedBefore(t.Context(), f.db, "k2"); err != nil || n != 1 {
		t.Errorf("%d keys, %v", n, err)
	}
	if n, err := f.writer.Reseal(t.Context(), "k2", 100); err != nil || n != 1 {
		t.Errorf("%d keys were sealed again, %v", n, err)
	}
	rotate(map[string][]byte{"k2": next}, "k2")
	if output, _ := play(t, f.read()); output != "after" {
		t.Errorf("%q", output)
	}
}

// redo replaces the recording of the session by one with the present key.
func (f *fixture) redo() error {
	f.exec(`DELETE FROM terminal_recordings`)
	f.exec(`DELETE FROM terminal_recording_chunks`)
	r := f.begin(1000)
	r.Output([]byte("after"))
	return r.Close()
}

// Recordings are deleted by age, also those of a server that failed, and their chunks after them.
func TestOldRecordingsAreDeleted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	r := f.begin(1000) // its server fails: it has no end
	r.Output([]byte("x"))
	for range 100 {
		if f.count(`SELECT count(*) FROM terminal_recording_chunks`) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if list, err := f.reader.List(f.scope(f.session.Tenant), recording.Filter{Project: f.session.Project, Limit: 10}); err != nil || len(list) != 1 || list[0].Status != "incomplete" {
		t.Errorf("%+v, %v", list, err)
	}
	work := pgtest.As(t, f.db, "gpuaas_work")
	remove := func() (n int64) {
		for _, one := range []func(context.Context, pg.Queryer, time.Duration, int) (int64, error){recording.DeleteRecordings, recording.DeleteChunks} {
			some, err := one(t.Context(), work, 24*time.Hour, 10)
			if err != nil {
				t.Fatal(err)
			}
			n += some
		}
		return n
	}
	if n := remove(); n != 0 {
		t.Errorf("%d rows of today were deleted", n)
	}
	f.exec(`UPDATE terminal_recording_chunks SET created_at = created_at - interval '25 hours'`)
	if n := remove(); n != 0 {
		t.Errorf("%d chunks of a recording with newer output were deleted", n)
	}
	f.exec(`UPDATE terminal_recordings SET updated_at = updated_at - interval '25 hours'`)
	f.exec(`BEGIN; SET LOCAL session_replication_role = replica;
		INSERT INTO terminal_sessions (id, org_id, project_id, allocation_id, node_id, fence, instance_id, principal, by_program, sign_in_id, scopes, limited,
			purpose, address, user_agent, correlation_id)
		SELECT id, org_id, project_id, allocation_id, id, 1, id, principal, false, id, '{}', false, 'shell', '', '', '' FROM terminal_recordings; COMMIT`)
	if n := remove(); n != 0 {
		t.Errorf("%d rows of a session that goes on without output were deleted", n)
	}
	f.exec(`UPDATE terminal_sessions SET ended_at = now(), end_reason = 'lost'`)
	if n := remove(); n != 2 {
		t.Errorf("%d rows were deleted, want a recording and its chunk", n)
	}
	_ = r.Close()
}

// Only the role terminal writes, and no role changes a chunk.
func TestOnlyTheRoleTerminalWrites(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, role := range []string{"gpuaas_api", "gpuaas_node", "gpuaas_work", "gpuaas_reconcile", "gpuaas_relay"} {
		other := &recording.Service{DB: pgtest.As(t, f.db, role), Seal: secret.Fields{Ring: f.keys}, Clock: clock.Clock{}}
		if _, err := other.Begin(t.Context(), f.session, recording.Options{Columns: 80, Rows: 24, Required: f.must.Load}); err == nil {
			t.Errorf("%s writes recordings", role)
		}
	}
	if _, err := f.writer.DB.Exec(t.Context(), `UPDATE terminal_recording_chunks SET body = ''`); err == nil {
		t.Error("a chunk can be changed")
	}
}
