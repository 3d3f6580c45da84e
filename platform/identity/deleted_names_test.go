package identity_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
)

// Threat: an owner gives the own tenant the name that another one gets by its deletion, which can then not be
// deleted. The same for the address of a user.
func TestNamesOfTheDeletedAreReserved(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	name := "deleted-" + w.Foreign.Tenant.String()
	_, err := w.UpdateTenant(identitytest.In(t.Context(), w.Owner), identitytest.Change[identity.Tenant](w.Owner), 0, name)
	identitytest.WantCode(t, "a rename", err, errs.ValidationError)
	admin := identitytest.In(t.Context(), w.Admin)
	_, err = w.CreateTenant(admin, identitytest.Change[identity.Tenant](w.Admin), name, "EUR")
	identitytest.WantCode(t, "another tenant", err, errs.ValidationError)
	_, err = w.CreateUser(admin, identitytest.Change[identity.User](w.Admin),
		identity.NewUser{Email: "deleted-" + w.Owner.User.String() + "@Deleted.invalid", Name: "N", Role: "user", Tenant: ids.Tenant{}})
	identitytest.WantCode(t, "a user", err, errs.ValidationError)
}
