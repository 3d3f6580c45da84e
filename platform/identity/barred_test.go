package identity_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
)

// A user with a declared role loses the access to a tenant with the membership, like any other user.
func TestADeclaredRoleGivesNoAccess(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	barred := func() bool {
		t.Helper()
		got, err := identity.Barred(t.Context(), w.Pool, w.Member.User.UUID, []ids.Tenant{w.Member.Tenant})
		if err != nil {
			t.Fatal(err)
		}
		return got[w.Member.Tenant]
	}
	w.Exec(t, `UPDATE users SET role = 'helpdesk' WHERE id = $1`, w.Member.User)
	if barred() {
		t.Error("a member is barred")
	}
	w.Exec(t, `DELETE FROM project_memberships WHERE user_id = $1`, w.Member.User)
	w.Exec(t, `DELETE FROM tenant_memberships WHERE user_id = $1`, w.Member.User)
	if !barred() {
		t.Error("a user who has left still has the access")
	}
}
