package keys_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
)

// The middleware reads the project of a service account before authorisation, so the request has no
// scope yet.
func TestTheProjectOfAnAccountIsFoundWithoutAScope(t *testing.T) {
	t.Parallel()

	w := identitytest.NewTenancy(t)
	ctx := t.Context()
	projects, err := w.ProjectPage(identitytest.In(ctx, w.Owner), w.Owner, "", "", 1)
	if err != nil || len(projects) != 1 {
		t.Fatal(projects, err)
	}
	a, err := w.Keys.CreateServiceAccount(identitytest.In(ctx, w.Owner), identitytest.Change[keys.ServiceAccount](w.Owner), projects[0].ID, keys.NewServiceAccount{Name: "trainer", Scopes: []string{"billing:read"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.Keys.ProjectOfAccount(ctx, w.Owner, a.ID); err != nil || got != projects[0].ID {
		t.Errorf("got %v, %v", got, err)
	}
	stranger := w.Owner
	stranger.Tenant = ids.New[ids.Tenant]()
	if _, err := w.Keys.ProjectOfAccount(ctx, stranger, a.ID); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("another tenant's: %v", err)
	}
}
