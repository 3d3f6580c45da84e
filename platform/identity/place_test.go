package identity_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// The middleware reads the project of a service account before authorisation, so the request has no
// scope yet.
func TestTheProjectOfAnAccountIsFoundWithoutAScope(t *testing.T) {
	t.Parallel()

	w := newTenancy(t)
	ctx := t.Context()
	projects, err := w.ProjectPage(in(ctx, w.owner), w.owner, "", 1)
	if err != nil || len(projects) != 1 {
		t.Fatal(projects, err)
	}
	a, err := w.CreateServiceAccount(in(ctx, w.owner), ask[identity.ServiceAccount](w.owner), projects[0].ID, identity.NewServiceAccount{Name: "trainer", Scopes: []string{"billing:read"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.ProjectOfAccount(ctx, w.owner, a.ID); err != nil || got != projects[0].ID {
		t.Errorf("got %v, %v", got, err)
	}
	stranger := w.owner
	stranger.Tenant = ids.New[ids.Tenant]()
	if _, err := w.ProjectOfAccount(ctx, stranger, a.ID); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("another tenant's: %v", err)
	}
}
