// Package removal deletes tenants and users. It rejects while something runs or is owed. The ledger and the
// audit log stay: they name ids, and the names behind the ids are removed.
package removal

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/storage"
)

// Service knows who owns what.
type Service struct {
	Identity    *identity.Service
	Allocations *allocation.Service
	Ledger      *ledger.Service
	Metering    *metering.Service
	Payments    *payment.Service
	AutoTopups  *autotopup.Service
	Storage     *storage.Service
}

// DeleteUser deletes a user who has no live allocation. Version zero is any.
func (s *Service) DeleteUser(ctx context.Context, ch identity.Change[struct{}], id ids.User, version int64) error {
	return s.Identity.DeleteUser(ctx, ch, id, version, func(tx pgx.Tx) error {
		live, err := s.Allocations.LiveOf(ctx, tx, ids.Tenant{}, id)
		if err == nil && live > 0 {
			err = errs.New(errs.Conflict, "the user has %d live allocations", live).Try("release them first").With("allocations", live)
		}
		return err
	})
}

// DeleteTenant deletes a tenant without live allocations, files, uncharged use, pending payments, pending
// refunds, open disputes and balance. Version zero is any.
func (s *Service) DeleteTenant(ctx context.Context, ch identity.Change[struct{}], id ids.Tenant, version int64) error {
	return s.Identity.DeleteTenant(ctx, ch, id, version, func(tx pgx.Tx) error {
		// The mandates first: afterwards no charge begins, and one that has begun is pending.
		if err := s.AutoTopups.EndOf(ctx, tx, id, ch.Caller.Cause()); err != nil {
			return err
		}
		if err := webhook.DeleteOf(ctx, tx, id); err != nil {
			return err
		}
		left, err := s.left(ctx, tx, id)
		if err != nil || len(left) == 0 {
			return err
		}
		e := errs.New(errs.TenantNotEmpty, "the tenant is not empty: something runs or is owed").
			Try("release allocations, delete files for good, wait until the use is charged, and refund or adjust the balance to 0")
		for name, value := range left {
			e = e.With(name, value)
		}
		return e
	})
}

// left returns what remains of a tenant, by the name of the detail of the error.
func (s *Service) left(ctx context.Context, tx pgx.Tx, id ids.Tenant) (map[string]any, error) {
	left := map[string]any{}
	live, err := s.Allocations.LiveOf(ctx, tx, id, ids.User{})
	if err != nil {
		return nil, err
	}
	if live > 0 {
		left["allocations"] = live
	}
	files, err := s.Storage.Remaining(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if files != (storage.Remaining{}) {
		left["stored_objects"], left["stored_bytes"], left["open_uploads"] = files.Objects, files.Bytes, files.Uploads
	}
	owing, err := s.Metering.Owing(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if owing {
		left["uncharged_use"] = true
	}
	// Before the balance: a payment that is credited between the two readings is in one of them.
	pending, err := s.Payments.Pending(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if pending != 0 {
		left["pending_payments_minor"] = pending
	}
	balance, currency, err := s.Ledger.Balance(ctx, tx, id)
	switch {
	case errs.CodeOf(err) == errs.NotFound: // no money has moved
	case err != nil:
		return nil, err
	case balance != 0:
		left["balance_minor"], left["currency"] = balance, currency
	}
	claims, err := s.Payments.Claims(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	if claims.Refunds {
		left["pending_refunds"] = true
	}
	if claims.Disputes {
		left["open_disputes"] = true
	}
	return left, nil
}
