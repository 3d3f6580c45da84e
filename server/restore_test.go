package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/platform/restore"
	"github.com/gpuaas/gpuaas/product/recovery"
	"github.com/gpuaas/gpuaas/protocol"
)

// INV-63: a server on a restored database serves reads and receives reports. It runs no loop, gives nodes no tasks and rejects every other
// change, until an operator confirms the restore.
func TestINV63ARestoredDatabaseIsReadOnlyUntilItIsConfirmed(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	owner, err := pg.Open(context.WithoutCancel(t.Context()), address, "test", 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	var now time.Time
	if err := owner.QueryRow(t.Context(), `SELECT now()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	if _, err := restore.Begin(t.Context(), owner, restore.Point{At: now, By: "ada"}); err != nil {
		t.Fatal(err)
	}
	a := startAlarmedOn(t, address)
	a.exec(`INSERT INTO certificates (serial, node_id, status, not_after) VALUES ('0a', '` + a.node.String() + `', 'active', now() + interval '1 hour')`)
	r := restoredServer{a, a.signIn()}
	in := a.intake(nil, &periods{policies: a.policies})
	a.do(func(tx pgx.Tx) error {
		return a.tasks[RoleWork].Put(t.Context(), tx, nodetask.Task{Node: a.node, Type: protocol.Probe, Params: protocol.ProbeParams{}})
	})

	if status, header, _ := r.call(http.MethodGet, "/readyz", ""); status != http.StatusOK || !strings.Contains(header.Get("X-Platform-Notice"), "restored") {
		t.Errorf("readyz: %d, notice %q", status, header.Get("X-Platform-Notice"))
	}
	if status, _, body := r.call(http.MethodGet, "/api/v1/api-keys", ""); status != http.StatusOK {
		t.Errorf("a read: %d %s", status, body)
	}
	if status, _, body := r.createKey(); status != http.StatusServiceUnavailable || !strings.Contains(body, "gpuaas restore confirm") {
		t.Errorf("a change: %d %s", status, body)
	}
	for _, path := range []string{"/ws/terminal/", "/ws/ssh/"} {
		if status, _, body := r.call(http.MethodGet, path+ids.New[ids.Allocation]().String(), ""); status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if tasks, err := in.Next(t.Context(), a.node); err != nil || len(tasks) != 0 {
		t.Errorf("tasks before the confirmation: %v, %v", tasks, err)
	}
	lost := ids.New[ids.Allocation]()
	if err := in.Restore.Record(t.Context(), a.node, protocol.Report{Complete: true, Allocations: []protocol.AllocationReport{{Allocation: lost, Phase: protocol.Ready, Fence: 3}}}); err != nil {
		t.Error(err)
	}
	r.until("the provider and the streams are queried", func() bool {
		return r.count(`SELECT count(*) FROM restores WHERE report->'payments'->>'count' = '0' AND jsonb_array_length(report->'streams'->'ahead') = 0`) == 1
	})
	if n := r.count(`SELECT count(*) FROM river.river_leader`) + r.count(`SELECT count(*) FROM outbox_position`) + r.count(`SELECT count(*) FROM event_consumers`); n != 0 {
		t.Error("a worker, the relay or a consumer runs")
	}
	if !strings.Contains(a.exported(), "gpuaas_restore_unconfirmed 1") {
		t.Error("the metric is not 1")
	}

	done, err := (&recovery.Service{DB: owner, Allocations: a.services[RoleAPI].Allocations}).Confirm(t.Context(), recovery.Confirmation{By: "ada"})
	if err != nil || len(done.Unknown) != 1 || done.Unknown[0] != lost.UUID {
		t.Fatalf("confirmed: %+v, %v", done, err)
	}
	r.until("the metric is 0", func() bool { return strings.Contains(a.exported(), "gpuaas_restore_unconfirmed 0") })
	r.until("a worker, the relay and a consumer run", func() bool {
		return r.count(`SELECT count(*) FROM river.river_leader`) > 0 && r.count(`SELECT count(*) FROM outbox_position`) > 0 && r.count(`SELECT count(*) FROM event_consumers`) > 0
	})
	if tasks, err := in.Next(t.Context(), a.node); err != nil || len(tasks) != 1 {
		t.Errorf("tasks after the confirmation: %v, %v", tasks, err)
	}
	if status, _, body := r.createKey(); status != http.StatusCreated {
		t.Errorf("a change after the confirmation: %d %s", status, body)
	}
	if status, _, body := r.call(http.MethodGet, "/ws/terminal/"+ids.New[ids.Allocation]().String(), ""); status == http.StatusServiceUnavailable {
		t.Errorf("a terminal after the confirmation: %d %s", status, body)
	}

	// A restore that begins under a running server stops it as well, and its confirmation starts the loops again.
	a.exec(`INSERT INTO restores (id, restored_to, by) VALUES (gen_random_uuid(), now(), 'ada')`)
	r.until("the workers have ended", func() bool { return r.count(`SELECT count(*) FROM river.river_leader`) == 0 })
	if status, _, _ := r.createKey(); status != http.StatusServiceUnavailable {
		t.Errorf("a change under the second restore: %d", status)
	}
	a.exec(`UPDATE restores SET confirmed_at = now(), confirmed_by = 'ada' WHERE confirmed_at IS NULL`)
	r.until("the workers run again", func() bool { return r.count(`SELECT count(*) FROM river.river_leader`) > 0 })
}

// INV-63: the S3 endpoint and the pages of the jobs serve reads only.
func TestINV63AHandlerIsReadOnlyWhileTheGateIsClosed(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	gate := &restore.Gate{DB: db}
	served := readOnly(gate, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	status := func(method string) int {
		w := httptest.NewRecorder()
		served.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/", http.NoBody))
		return w.Code
	}
	for _, closed := range []bool{false, true} {
		if closed {
			if _, err := db.Exec(t.Context(), `INSERT INTO restores (id, restored_to, by) VALUES (gen_random_uuid(), now(), 'ada')`); err != nil {
				t.Fatal(err)
			}
		}
		if err := gate.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for method, write := range map[string]bool{http.MethodGet: false, http.MethodHead: false, http.MethodPut: true, http.MethodPost: true, http.MethodDelete: true} {
			want := http.StatusNoContent
			if closed && write {
				want = http.StatusServiceUnavailable
			}
			if got := status(method); got != want {
				t.Errorf("%s, closed %t: %d", method, closed, got)
			}
		}
	}
}

type restoredServer struct {
	*alarmed

	token string
}

// signIn returns the token of a session of a new administrator.
func (a *alarmed) signIn() string {
	a.t.Helper()
	s := a.services[RoleAPI].SignIn
	link, err := s.FirstAdminLink(a.t.Context(), "root@example.org")
	if err != nil {
		a.t.Fatal(err)
	}
	started, err := s.UseLink(a.t.Context(), link.Code, signin.Origin{})
	if err != nil {
		a.t.Fatal(err)
	}
	return started.Token
}

func (r restoredServer) createKey() (status int, header http.Header, body string) {
	r.t.Helper()
	return r.call(http.MethodPost, "/api/v1/api-keys", `{"name": "k", "scopes": ["storage:read"]}`)
}

func (r restoredServer) call(method, path, content string) (status int, header http.Header, body string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.URL()+path, strings.NewReader(content))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	if content != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

func (r restoredServer) count(sql string) (n int) {
	r.t.Helper()
	if err := r.db.QueryRow(r.t.Context(), sql).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r restoredServer) until(what string, yes func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !yes(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not in time: %s", what)
		}
	}
}
