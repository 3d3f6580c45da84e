package autotopup_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	devstripe "github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
)

// A restored database has a low balance, because it has lost a charge, and another charge is reserved. Neither is charged after
// the confirmation of the restore, until the owner of the tenant resumes the mandate.
func TestARestoredDatabaseChargesNothing(t *testing.T) {
	t.Parallel()
	for name, reserved := range map[string]bool{"a low balance": false, "a reserved charge": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			v := b.active(devstripe.CardPaid, terms)
			if reserved {
				must(t, b.provider.Arm("api_error", 100))
				wantCode(t, "away", b.work.Run(t.Context(), b.caller.Tenant), errs.ProviderFailed)
				must(t, b.provider.Clear())
			}
			must(t, pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
				n, err := b.work.PauseAll(t.Context(), tx, audit.By{Actor: "system:operator"})
				if n != 1 {
					t.Errorf("%d are paused", n)
				}
				return err
			}))
			b.run()
			if due, err := b.work.Due(t.Context()); err != nil || len(due) != 0 || b.charges() != 0 {
				t.Errorf("due %v, %v; %d charges", due, err, b.charges())
			}
			if v = b.get(v.ID); v.State != autotopup.Paused || v.Reason != "restored" {
				t.Errorf("%+v", v)
			}
			if n := b.count(`SELECT count(*) FROM audit_logs WHERE action = 'auto_topup.pause' AND actor = 'system:operator'`); n != 1 {
				t.Errorf("%d audit rows", n)
			}
			if got, want := b.subjects(), "auto_topup_changed auto_topup_changed auto_topup_changed auto_topup_paused"; got != want {
				t.Errorf("events %q, want %q", got, want)
			}
			_, err := b.api.Confirm(b.mine, change[autotopup.View](b.caller), v.ID, terms)
			must(t, err)
			b.run()
			if n := b.charges(); n != 1 {
				t.Errorf("%d charges after the resumption", n)
			}
		})
	}
}
