package identity_test

import (
	"errors"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
)

// Only the invited user accepts an invitation, while it is open, and only while the user is in no tenant. An
// invitation to another address does not exist.
func TestOnlyTheInvitedUserAcceptsAnInvitation(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	alone := w.Person(t, "Alone@dev.localhost", ids.Tenant{}, "")
	accept := func(c identity.Caller, id ids.Invitation) error {
		return w.AcceptInvitation(identitytest.In(t.Context(), c), identitytest.Change[struct{}](c), id)
	}
	for reason, change := range map[string]string{"expired": "expires_at = now()", "revoked": "revoked_at = now()", "accepted": "accepted_at = now()"} {
		id := w.Invitation(t, w.Owner, alone.Email)
		w.Exec(t, "UPDATE invitations SET "+change+" WHERE id = $1", id)
		var e *errs.Error
		if err := accept(alone, id); !errors.As(err, &e) || e.Code != errs.Conflict || e.Details["reason"] != reason {
			t.Errorf("%s: %v", reason, err)
		}
		w.Exec(t, "UPDATE invitations SET revoked_at = now() WHERE id = $1", id) // an expired one reserves the address
	}
	open := w.Invitation(t, w.Owner, "ALONE@dev.localhost")
	foreign := w.Invitation(t, w.Foreign.Owner, alone.Email)
	other := w.Invitation(t, w.Foreign.Owner, "other@dev.localhost")
	identitytest.WantCode(t, "of another address", accept(alone, other), errs.NotFound)
	identitytest.WantCode(t, "by another user", accept(w.Foreign.Owner, open), errs.NotFound)
	identitytest.WantCode(t, "unknown", accept(alone, ids.New[ids.Invitation]()), errs.NotFound)
	identitytest.WantCode(t, "by a member of a tenant", accept(w.Member, w.Invitation(t, w.Foreign.Owner, w.Member.Email)), errs.Conflict)

	list, err := w.OwnInvitations(identitytest.In(t.Context(), alone), alone, ids.Invitation{}, 10)
	if err != nil || len(list) != 2 || list[0].ID != open || list[0].Tenant != w.Owner.Tenant || list[0].TenantName == "" || list[1].ID != foreign {
		t.Errorf("listed %+v, %v", list, err)
	}
	codes := identitytest.Together(8, func(i int) error { return accept(alone, []ids.Invitation{open, foreign}[i%2]) })
	if codes[""] != 1 || w.Count(t, `SELECT count(*) FROM tenant_memberships WHERE user_id = $1 AND role = 'viewer'`, alone.User) != 1 {
		t.Errorf("eight at once: %v", codes)
	}
	declined := w.Invitation(t, w.Foreign.Owner, w.Member.Email+".x")
	identitytest.WantCode(t, "declining that of another address",
		w.DeclineInvitation(identitytest.In(t.Context(), alone), identitytest.Change[struct{}](alone), declined), errs.NotFound)
}
