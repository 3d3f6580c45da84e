package logstream

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/protocol"
)

// Parallel openings never exceed the limits of an allocation, a node and a user. The end of a stream, or silence, allows another one.
// Each role does its part with its own rights.
func TestLimits(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s := &Service{DB: pgtest.Scoped(t, db), Naming: ids.DefaultNaming, PerAllocation: func(ids.Tenant, ids.Project) int { return 3 }}
	ctx := pg.WithScope(t.Context(), pg.Platform)
	ofAllocation := Request{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project](), Allocation: ids.New[ids.Allocation](), Query: protocol.LogQuery{Source: protocol.LogAgent}}
	ofNode := Request{Node: ids.New[ids.Node](), Query: protocol.LogQuery{Source: protocol.LogSystem}}
	open := func(n int, next func() Request) (tickets []Ticket) {
		t.Helper()
		var mu sync.Mutex
		var all sync.WaitGroup
		var limited atomic.Int32
		for range n {
			all.Go(func() {
				made, err := s.Create(ctx, next())
				switch {
				case err == nil:
					mu.Lock()
					tickets = append(tickets, made)
					mu.Unlock()
				case errs.CodeOf(err) == errs.ConcurrencyLimitReached:
					limited.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(tickets)+int(limited.Load()) != n {
			t.Errorf("%d opened and %d limited of %d", len(tickets), limited.Load(), n)
		}
		return tickets
	}
	by := func(r Request) func() Request {
		return func() Request {
			r.Caller = identity.Caller{User: ids.New[ids.User]()}
			return r
		}
	}
	first := open(10, by(ofAllocation))
	if len(first) != 3 {
		t.Errorf("%d streams of an allocation", len(first))
	}
	if n := len(open(20, by(ofNode))); n != maxPerNode {
		t.Errorf("%d streams of a node", n)
	}
	me := identity.Caller{User: ids.New[ids.User]()}
	mine := func() Request {
		return Request{Caller: me, Node: ids.New[ids.Node](), Query: ofNode.Query}
	}
	if n := len(open(40, mine)); n != maxPerUser {
		t.Errorf("%d streams of a user", n)
	}
	if err := s.End(ctx, first[0].ID); err != nil {
		t.Fatal(err)
	}
	if n := len(open(2, by(ofAllocation))); n != 1 {
		t.Errorf("after an end: %d", n)
	}
	if _, err := db.Exec(t.Context(), `UPDATE log_streams SET seen_at = now() - interval '16 s'`); err != nil {
		t.Fatal(err)
	}
	if err := s.Beat(ctx, first[1].ID); err != nil {
		t.Fatal(err)
	}
	if n := len(open(5, by(ofAllocation))); n != 2 {
		t.Errorf("after the silence of all but one: %d", n)
	}

	terminal := &Service{DB: pgtest.As(t, db, "gpuaas_terminal")}
	made, err := s.Create(ctx, mine())
	if err != nil {
		t.Fatal(err)
	}
	if to, err := terminal.Redeem(t.Context(), made.Token); err != nil || to.Query != ofNode.Query || to.Node == (ids.Node{}) || to.Fence != 0 {
		t.Errorf("%+v %v", to, err)
	}
	if _, err := terminal.Redeem(t.Context(), made.Token); errs.CodeOf(err) != errs.TerminalTokenInvalid {
		t.Errorf("a second use: %v", err)
	}
	if _, err := terminal.Redeem(t.Context(), first[1].Token); errs.CodeOf(err) != errs.AllocationNotActive {
		t.Errorf("an allocation without a node: %v", err)
	}
	if _, err := db.Exec(t.Context(), `UPDATE log_streams SET seen_at = now() - interval '61 s' WHERE id = $1`, first[1].ID); err != nil {
		t.Fatal(err)
	}
	if n, err := DeleteSilent(t.Context(), pgtest.As(t, db, "gpuaas_work"), 0, 10); err != nil || n != 1 {
		t.Errorf("%d silent streams were deleted: %v", n, err)
	}
}
