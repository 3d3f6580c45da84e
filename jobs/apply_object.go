package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// applyObject calls the owning package of a kind to apply or delete an object.
type applyObject struct {
	river.WorkerDefaults[reconciler.ApplyObject]

	d *Deps
}

// Work applies the object and records it as applied in one transaction. After a failure it records the failed attempt in
// a transaction of its own, because the first one was rolled back.
func (w *applyObject) Work(ctx context.Context, job *river.Job[reconciler.ApplyObject]) error {
	var closed []plan.Drift
	err := riverjob.Finish(ctx, w.d.DB, job, "object", func(tx pgx.Tx) error {
		o, err := w.d.Desired.LockUID(ctx, tx, job.Args.ObjectKind, ids.Object{UUID: job.Args.Object})
		if err != nil {
			return cancelUnknown(err)
		}
		if o.Generation != job.Args.Generation || o.Epoch != job.Args.Epoch {
			return nil // a newer plan owns it
		}
		gone := o.DeletedAt != nil
		if err := w.applySpec(ctx, tx, o, gone); err != nil {
			return err
		}
		if closed, err = w.d.drifts().ObjectApplied(ctx, tx, plan.Subject{Kind: o.Kind, Object: o.UID.UUID, Name: o.Name}); err != nil {
			return err
		}
		return w.d.Observed.Applied(ctx, tx, string(o.Kind), observed.Applied{UID: o.UID.UUID, Generation: o.Generation, Epoch: o.Epoch, SpecHash: o.SpecHash, Gone: gone})
	})
	if err == nil {
		w.d.countDrift(closed)
		w.deleteSpec(job.Args.ObjectKind)
		return nil
	}
	var cancelled *river.JobCancelError
	if errors.As(err, &cancelled) || ctx.Err() != nil {
		return err // the object does not exist, or the server stops
	}
	a := job.Args
	return errors.Join(err, w.d.Observed.ApplyFailed(ctx, string(a.ObjectKind), a.Object, a.Generation, a.Epoch, err.Error()))
}

// applySpec calls the package that owns the kind.
func (w *applyObject) applySpec(ctx context.Context, tx pgx.Tx, o desired.Object, gone bool) error {
	switch o.Kind {
	case desired.KindSKU:
		return apply(o, gone, func(s desired.SKU) error {
			if err := w.d.Catalog.Declare(ctx, tx, o.UID, o.Name, s); err != nil {
				return err
			}
			return w.d.Allocations.Reprice(ctx, tx, o.Name, s.Price.Currency, money.Minor(s.Price.AmountMinor))
		}, func() error { return w.d.Catalog.Retire(ctx, tx, o.UID) })
	case desired.KindOSImage:
		return apply(o, gone, func(s desired.OSImage) error { return w.d.Catalog.DeclareImage(ctx, tx, o.UID, o.Name, s) },
			func() error { return w.d.Catalog.RetireImage(ctx, tx, o.UID) })
	case desired.KindStorageClass:
		return apply(o, gone, func(s desired.StorageClass) error {
			return w.priceStorage(ctx, tx, func() error { return w.d.Catalog.DeclareClass(ctx, tx, o.UID, o.Name, s) })
		},
			func() error {
				return w.priceStorage(ctx, tx, func() error { return w.d.Catalog.RetireClass(ctx, tx, o.UID) })
			})
	case desired.KindNode:
		node := ids.Node{UUID: o.UID.UUID}
		return apply(o, gone, func(spec json.RawMessage) error { return w.d.NodeHealth.Declare(ctx, tx, node, o.Name, spec) },
			func() error { return w.d.NodeHealth.Retire(ctx, tx, node) })
	case desired.KindPolicy:
		return apply(o, gone, func(s desired.Policy) error { return w.set(ctx, tx, o, s) }, func() error { return w.unset(ctx, tx, o) })
	case desired.KindRole:
		return apply(o, gone, func(s desired.Role) error { return w.d.Policies.SetRole(ctx, tx, o.Name, s.Operations, o.UID) },
			func() error { return w.d.Policies.UnsetRole(ctx, tx, o.Name) })
	case desired.KindEnvironment:
		return nil // read from the declaration itself; there is no other copy
	case desired.KindAllocation:
	}
	return fmt.Errorf("%s %s: no package applies this kind", o.Kind, o.Name)
}

// priceStorage changes a storage class, and meters all stored bytes at the price of the default class from now on.
func (w *applyObject) priceStorage(ctx context.Context, tx pgx.Tx, change func() error) error {
	if err := change(); err != nil {
		return err
	}
	class, err := w.d.Catalog.DefaultClass(ctx, tx)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	metering.QueueStoragePrice(b, metering.StoragePrice{Class: class.Name, PriceMinor: class.PriceMinor, FreeBytes: class.FreeGiB * metering.GiB, Currency: class.Currency})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("pricing stored bytes: %w", err)
	}
	return nil
}

// set applies a policy to the tenant, project or user that its scope named when it was first applied.
// If a new scope names nothing, for example because the tenant was renamed after the change was accepted,
// nothing is applied.
func (w *applyObject) set(ctx context.Context, tx pgx.Tx, o desired.Object, s desired.Policy) error {
	scope := policies.Scope(s.Scope)
	subjects, err := w.d.Identity.ScopeSubjects(ctx, tx, []policies.Scope{scope})
	if err != nil {
		return err
	}
	applied, err := w.d.Policies.Subjects(ctx, tx, []policies.Scope{scope})
	if err != nil {
		return err
	}
	subject := cmp.Or(applied[scope], subjects[scope])
	if subject == "" {
		return errs.New(errs.SpecInvalid, "%s: %q names nothing", o.Key(), s.Scope).At("spec.scope").Try("use the id of an existing %s", scope.Level())
	}
	return w.d.Policies.Set(ctx, tx, policies.Applied{Key: s.Key, Scope: scope, Subject: subject, Value: s.Value, Source: o.Source.String(), Object: o.UID})
}

func (w *applyObject) unset(ctx context.Context, tx pgx.Tx, o desired.Object) error {
	var s desired.Policy
	if err := json.Unmarshal(o.Spec, &s); err != nil {
		return fmt.Errorf("reading %s %s: %w", o.Kind, o.Name, err)
	}
	return w.d.Policies.Unset(ctx, tx, s.Key, policies.Scope(s.Scope))
}

func apply[T any](o desired.Object, gone bool, declare func(T) error, retire func() error) error {
	if gone {
		return retire()
	}
	var spec T
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return fmt.Errorf("reading %s %s: %w", o.Kind, o.Name, err)
	}
	return declare(spec)
}

// deleteSpec deletes the cached policies or roles after their object has changed.
func (w *applyObject) deleteSpec(k desired.Kind) {
	switch k {
	case desired.KindSKU, desired.KindOSImage, desired.KindStorageClass:
		w.d.Catalog.Invalidate()
		w.d.Hints.Send("catalog")
	case desired.KindPolicy, desired.KindRole:
		w.d.Hints.Send(policies.Topic)
	case desired.KindNode:
		w.d.Hints.Send(slots.HintSlots)
	case desired.KindEnvironment, desired.KindAllocation:
	}
	w.d.Desired.Hint()
}
