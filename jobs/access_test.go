package jobs_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/protocol"
)

// certificate writes one of a principal for an allocation.
func (b *bundle) certificate(serial int64, a allocation.Allocation, principal identity.Caller, life time.Duration) {
	b.t.Helper()
	_, err := b.DB.Exec(b.t.Context(), `INSERT INTO ssh_certificates (serial, allocation_id, principal, expires_at) VALUES ($1, $2, $3, $4)`,
		serial, a.ID, principal.Principal(), time.Now().Add(life))
	if err != nil {
		b.t.Fatal(err)
	}
}

// A user who is disabled, or leaves the tenant, has no way into a running allocation: the registered keys
// and the certificates of minutes end with a task for the node. Another user's keys stay.
func TestADisabledUserLosesRunningAllocations(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(b *bundle, s *identity.Service) error{
		"disabled": func(b *bundle, s *identity.Service) error {
			_, err := s.UpdateUser(t.Context(), identitytest.Change[identity.User](b.Operator), b.Caller.User, 0, identity.UserPatch{Disabled: new(true)})
			return err
		},
		"removed from the tenant": func(b *bundle, s *identity.Service) error {
			if _, err := b.DB.Exec(t.Context(), `UPDATE tenant_memberships SET role = 'owner' WHERE user_id = $1`, b.Operator.User); err != nil {
				return err
			}
			return s.RemoveTenantMember(t.Context(), identitytest.Change[struct{}](b.Operator), b.Caller.User)
		},
	} {
		b, _ := setupLogins(t)
		b.rekeys = b.client
		key := b.addKey("first")
		b.rekeyed()
		own, foreign := b.Active(t, 1), b.activeOf(b.Operator)
		first, _ := b.ensured(own)
		b.ends(first, protocol.Succeeded)
		b.opens("before", own, 1, key)
		b.certificate(-7, own, b.Caller, 5*time.Minute)
		b.certificate(9, foreign, b.Caller, 5*time.Minute)
		b.certificate(10, foreign, b.Operator, 5*time.Minute)
		b.certificate(11, own, b.Caller, -time.Minute)

		s := b.Allocations.Identity
		s.Rekey = b.keys().Rekey
		if _, err := b.DB.Exec(t.Context(), `UPDATE users SET role = 'admin' WHERE id = $1`, b.Operator.User); err != nil {
			t.Fatal(err)
		}
		if err := end(b, s); err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		b.rekeyed()
		b.opens(how, own, 2)
		if e, o := b.ensured(own); e.Type != protocol.RotateKeys || len(o.PublicKeys) != 0 || !slices.Equal(o.Revoked, []uint64{1<<64 - 7}) {
			t.Errorf("%s: the node of the own allocation gets %s %+v", how, e.Type, o)
		}
		if e, o := b.ensured(foreign); e.Fence != 2 || !slices.Equal(o.Revoked, []uint64{9}) {
			t.Errorf("%s: the node of another's allocation gets %+v", how, o)
		}
		_, err := b.withLogins().Login(t.Context(), identity.Change[allocation.Login]{Caller: b.Caller}, own.ID, authority)
		identitytest.WantCode(t, how+": a certificate afterwards", err, errs.Forbidden)
	}
}

// A changed SSH authority reaches the nodes of all active allocations, with no other change, once.
func TestAChangedAuthorityReachesNodes(t *testing.T) {
	t.Parallel()
	b, _ := setupLogins(t)
	a := b.Active(t, 1)
	e, _ := b.ensured(a)
	b.ends(e, protocol.Succeeded)
	send := func() (sent int) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), pgtest.As(t, b.DB, "gpuaas_work"), func(tx pgx.Tx) (err error) {
			sent, err = b.Allocations.SendAuthorities(t.Context(), tx, allocation.AuthoritiesHash(b.deps.UserCA()), 10)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
	if sent := send(); sent != 0 {
		t.Errorf("unchanged authorities are sent to %d nodes", sent)
	}
	next := authority + "-2"
	b.deps.UserCA = func() []string { return []string{authority, next} }
	if first, again := send(), send(); first != 1 || again != 0 {
		t.Errorf("sent to %d nodes, then to %d", first, again)
	}
	if e, o := b.ensured(a); e.Type != protocol.RotateKeys || e.Fence != 2 || !slices.Equal(o.UserCA, []string{authority, next}) {
		t.Errorf("the node gets %s %+v", e.Type, o)
	}
	if sent := send(); sent != 0 {
		t.Errorf("sent once more to %d nodes", sent)
	}
}

// activeOf makes an active allocation of a user.
func (b *bundle) activeOf(c identity.Caller) allocation.Allocation {
	b.t.Helper()
	mine := b.Caller
	b.Caller = c
	defer func() { b.Caller = mine }()
	return b.Active(b.t, 1)
}

// withLogins returns the service of allocations with an authority.
func (b *bundle) withLogins() *allocation.Service {
	s := b.Allocations
	s.Signs = func(context.Context, ssh.PublicKey, ids.Allocation, string, time.Duration) (allocation.Login, error) {
		return allocation.Login{Serial: 12, ExpiresAt: time.Now().Add(time.Minute)}, nil
	}
	s.LoginLife = func() time.Duration { return time.Minute }
	return s
}
