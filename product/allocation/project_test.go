package allocation_test

import (
	"context"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

// apiServer returns a server with the rights of the API's role, an owner of the tenant, and the scope of that
// owner's requests.
func apiServer(t *testing.T, w *allocationtest.Fixture) (context.Context, *allocation.Service, identity.Caller) {
	t.Helper()
	s, c := w.Server(), w.Caller
	s.DB = pgtest.Scoped(t, w.DB)
	s.Identity.DB, s.Desired = s.DB, &desired.Store{DB: s.DB, Hints: w.Hints}
	c.TenantRole = "owner"
	return pg.WithScope(t.Context(), pg.Scope{Tenant: c.Tenant.String(), Principal: c.Principal().String()}), s, c
}

func TestAProjectIsClosedWhenNothingLivesInIt(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, 1_000_000)
	w.Node(t, "node-1", 4)
	ctx, s, c := apiServer(t, w)
	shut := func(by identity.Caller, version int64) errs.Code {
		return errs.CodeOf(s.CloseProject(ctx, identity.Change[struct{}]{Caller: by}, w.Caller.Project, version))
	}
	a := w.Active(t, 1)
	if got := shut(c, 1); got != errs.ProjectNotEmpty {
		t.Errorf("with one active: %s", got)
	}
	if _, err := w.DB.Exec(t.Context(), `ALTER TABLE allocations DISABLE TRIGGER USER; UPDATE allocations SET status = 'release_failed'`); err != nil {
		t.Fatal(err)
	}
	if got := shut(c, 1); got != errs.ProjectNotEmpty {
		t.Errorf("with one whose release failed: %s", got)
	}
	if _, err := w.DB.Exec(t.Context(), `UPDATE allocations SET status = 'released', ended_at = now() WHERE id = $1`, a.ID); err != nil {
		t.Fatal(err)
	}
	setFiles := func(objects int) {
		if _, err := w.DB.Exec(t.Context(), `INSERT INTO storage_usage (scope_id, org_id, project_id, objects) VALUES ($1, $2, $1, $3)
			ON CONFLICT (scope_id) DO UPDATE SET objects = excluded.objects`, c.Project, c.Tenant, objects); err != nil {
			t.Fatal(err)
		}
	}
	setFiles(1)
	if got := shut(c, 1); got != errs.ProjectNotEmpty {
		t.Errorf("with a file: %s", got)
	}
	setFiles(0)
	if _, err := w.DB.Exec(t.Context(), `INSERT INTO storage_uploads (id, org_id, project_id, path, media_type, if_absent, if_match, handle, created_by, expires_at)
		VALUES (gen_random_uuid(), $1, $2, 'f', '', false, '', 'h', 'u', now() + interval '1 hour')`, c.Tenant, c.Project); err != nil {
		t.Fatal(err)
	}
	if got := shut(c, 1); got != errs.ProjectNotEmpty {
		t.Errorf("with an upload without a size: %s", got)
	}
	if _, err := w.DB.Exec(t.Context(), `UPDATE storage_uploads SET state = 'aborted'`); err != nil {
		t.Fatal(err)
	}
	if got := shut(c, 3); got != errs.VersionMismatch {
		t.Errorf("an old version: %s", got)
	}
	if got := shut(w.Operator, 1); got != errs.Forbidden {
		t.Errorf("by one who does not administer it: %s", got)
	}
	if got := shut(identity.Caller{User: c.User, Tenant: ids.New[ids.Tenant](), TenantRole: "owner"}, 1); got != errs.NotFound {
		t.Errorf("by another tenant's owner: %s", got)
	}
	if got := shut(c, 1); got != "" {
		t.Errorf("empty: %s", got)
	}
	if got := shut(c, 0); got != errs.NotFound {
		t.Errorf("again: %s", got)
	}
	_, err := s.Request(ctx, allocation.Request{Caller: c, SKU: allocationtest.SKU, GPUs: 1})
	if errs.CodeOf(err) != errs.NotFound {
		t.Errorf("an allocation in it: %v", err)
	}
}

// Either the project is closed or the allocation is created, never both.
func TestClosingAProjectRacesWithARequest(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, 1_000_000)
	w.Node(t, "node-1", 8)
	ctx, s, c := apiServer(t, w)
	for round := range 12 {
		p, err := s.Identity.CreateProject(ctx, identity.Change[identity.Project]{Caller: c}, "race", "")
		if err != nil {
			t.Fatal(err)
		}
		in := c
		in.Project = p.ID
		var closed, asked error
		var wg sync.WaitGroup
		start := make(chan struct{})
		wg.Go(func() {
			<-start
			_, asked = s.Request(ctx, allocation.Request{Caller: in, SKU: allocationtest.SKU, GPUs: 1})
		})
		wg.Go(func() {
			<-start
			closed = s.CloseProject(ctx, identity.Change[struct{}]{Caller: c}, p.ID, 0)
		})
		close(start)
		wg.Wait()
		switch {
		case closed == nil && errs.CodeOf(asked) == errs.NotFound:
		case asked == nil && errs.CodeOf(closed) == errs.ProjectNotEmpty:
		default:
			t.Fatalf("round %d: closing it ended with %v, the request with %v", round, closed, asked)
		}
		if _, err := w.DB.Exec(t.Context(), `UPDATE projects SET name = id::text WHERE id = $1`, p.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := w.DB.Exec(t.Context(), `DELETE FROM slot_claims; UPDATE slots SET status = 'clean'`); err != nil {
			t.Fatal(err)
		}
	}
}
