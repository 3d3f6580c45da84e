package relayrequest

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/protocol"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"relay_requests"}, map[string]string{
		"insertRequest": insertRequest, "deleteRequest": deleteRequest, "sendRequests": sendRequests,
	})
}

// Each role does what it must with its own rights: the terminal server inserts and deletes, the node API sends.
func TestARequestIsSentUntilItsStreamIsOpen(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	terminal, api := Store{pgtest.As(t, db, "gpuaas_terminal")}, Store{pgtest.As(t, db, "gpuaas_node")}
	node, other := ids.New[ids.Node](), ids.New[ids.Node]()
	insert := func(expires time.Time) ids.Task {
		r := Request{Stream: ids.New[ids.Task](), Node: node, Expires: expires, Signed: protocol.Signed{Kid: "k", Body: []byte("b"), Signature: []byte("s")}}
		if err := terminal.Insert(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return r.Stream
	}
	count := func(want int, what string) {
		t.Helper()
		due, err := api.Next(t.Context(), node, other)
		if err != nil || len(due[node]) != want || len(due[other]) != 0 {
			t.Errorf("%s: %d for the node and %d for the other, want %d and 0, %v", what, len(due[node]), len(due[other]), want, err)
		}
	}
	now := time.Now()
	insert(now.Add(-2 * time.Minute))
	first := insert(now.Add(time.Minute))
	second := insert(now.Add(time.Minute))
	var left int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM relay_requests`).Scan(&left); err != nil || left != 2 {
		t.Errorf("%d requests are left, want 2 that have not expired, %v", left, err)
	}
	count(2, "at first")
	count(0, "at once")
	if _, err := db.Exec(t.Context(), `UPDATE relay_requests SET sent_at = now() - interval '4 s'`); err != nil {
		t.Fatal(err)
	}
	if err := terminal.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	count(1, "after 4 seconds")
	if _, err := db.Exec(t.Context(), `UPDATE relay_requests SET sent_at = NULL, expires_at = now() WHERE stream_id = $1`, second); err != nil {
		t.Fatal(err)
	}
	count(0, "expired")
}
