package billing

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Limits are the spend limits that a tenant or a project sets for itself. Nil is not set. Zero means no
// limit of its own.
type Limits struct {
	HourlySpendMinor   *money.Minor // what everything that runs may cost in an hour
	MonthlyBudgetMinor *money.Minor // from what on nothing more is started in a month
}

// LimitsView contains the limits that are set for a tenant or a project, and the limits in effect.
type LimitsView struct {
	Project ids.Project // zero: of the tenant
	Limits
	// In force, with what is set further out; zero is none.
	EffectiveHourlyMinor, EffectiveMonthlyMinor money.Minor
	// Where Git sets it, and so who else cannot; empty where it does not.
	HourlyManagedBy, MonthlyManagedBy string
	Currency                          string
	Version                           int64 // rises with every change
}

// limit is one of the two.
type limit struct {
	key         policies.MinorKey
	name, field string // of its declaration, and in the API
	value       func(*Limits) **money.Minor
	effective   func(*LimitsView) *money.Minor
	managed     func(*LimitsView) *string
}

var limits = []limit{
	{
		policies.BillingHourlySpendLimitMinor, "hourly-spend-limit-", "hourly_spend_limit_minor",
		func(l *Limits) **money.Minor { return &l.HourlySpendMinor },
		func(v *LimitsView) *money.Minor { return &v.EffectiveHourlyMinor },
		func(v *LimitsView) *string { return &v.HourlyManagedBy },
	},
	{
		policies.BillingMonthlyBudgetMinor, "monthly-budget-", "monthly_budget_minor",
		func(l *Limits) **money.Minor { return &l.MonthlyBudgetMinor },
		func(v *LimitsView) *money.Minor { return &v.EffectiveMonthlyMinor },
		func(v *LimitsView) *string { return &v.MonthlyManagedBy },
	},
}

// place identifies the tenant or project of the limits. An object that the API owns uses the id.
type place struct {
	tenant  identity.Tenant
	project ids.Project
	own     policies.Scope
	id      string
	urn     string
}

// Limits reads those of the caller's tenant, or of one of its projects.
func (s *Service) Limits(ctx context.Context, c identity.Caller, project ids.Project) (LimitsView, error) {
	at, err := s.place(ctx, c, project)
	if err != nil {
		return LimitsView{}, err
	}
	// The fleet's declarations are the platform's; what is read is the caller's own.
	view, _, err := s.limits(pg.WithScope(ctx, pg.Platform), s.DB, at)
	return view, err
}

// SetLimits puts the limits that are not nil as desired objects. The control loop applies them within
// moments, as it does every object.
func (s *Service) SetLimits(ctx context.Context, ch identity.Change[LimitsView], project ids.Project, version int64, set Limits) (LimitsView, error) {
	at, err := s.place(ctx, ch.Caller, project)
	if err == nil {
		err = set.check(at.own)
	}
	if err != nil {
		return LimitsView{}, err
	}
	// Only now: above it was made sure that these limits are the caller's.
	ctx = pg.WithScope(ctx, pg.Platform)
	for try := 1; ; try++ {
		made, err := s.setLimits(ctx, ch, at, version, set)
		switch {
		case err == nil:
			s.Desired.Hint()
			return made, nil
		case !errors.Is(err, errRaced):
			return LimitsView{}, err
		case try == tries:
			return LimitsView{}, errs.New(errs.Conflict, "the limits were changed by another request").Try("repeat it in a moment")
		}
	}
}

// errRaced means that another request has changed the rows that a change was computed from.
var errRaced = errors.New("it was changed meanwhile")

// tries is the number of attempts of a change that concurrent changes overtake.
const tries = 5

// setLimits reads before its transaction, because the reply goes first into it,
// and again under the tenant's lock.
func (s *Service) setLimits(ctx context.Context, ch identity.Change[LimitsView], at place, version int64, set Limits) (LimitsView, error) {
	was, found, err := s.limits(ctx, s.DB, at)
	if err != nil {
		return LimitsView{}, err
	}
	if version != 0 && version != was.Version {
		return LimitsView{}, errs.New(errs.VersionMismatch, "this is version %d, and you changed version %d", was.Version, version).
			Try("read it again and repeat the change").With("version", was.Version)
	}
	changed, err := was.changed(set, found)
	if err != nil {
		return LimitsView{}, err
	}
	is := s.afterChange(was, at, set, changed)
	return is, pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		s.Identity.QueueKey(b, ch.Key, reply(ch, is))
		identity.QueueLock(b, identity.Caller{Tenant: at.tenant.ID, Project: at.project, User: ch.Caller.User, ServiceAccount: ch.Caller.ServiceAccount})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		now, _, err := s.limits(ctx, tx, at)
		switch {
		case err != nil:
			return err
		case now.Version != was.Version:
			return errRaced
		}
		for _, l := range changed {
			if err := s.putLimit(ctx, tx, l.name+at.id, string(l.key), at.own, int64(**l.value(&set))); err != nil {
				return err
			}
		}
		return s.noteLimits(ctx, tx, ch.Caller, at, was, is)
	})
}

// changed returns the limits that differ from the stored ones. It rejects a limit that Git owns.
func (v LimitsView) changed(set Limits, found []limitObject) (changed []limit, err error) {
	for _, l := range limits {
		have, want := *l.value(&v.Limits), *l.value(&set)
		if want == nil || have != nil && *have == *want {
			continue
		}
		for _, d := range found {
			if d.key == string(l.key) && d.byGit {
				return nil, errs.New(errs.ManagedByGit, "the limit is managed in Git; edit %s", d.source).At(l.field).With("source", d.source)
			}
		}
		changed = append(changed, l)
	}
	return changed, nil
}

// afterChange returns the view as it will be after the change is applied.
func (s *Service) afterChange(was LimitsView, at place, set Limits, changed []limit) LimitsView {
	is, view := was, s.Policy(at.tenant.ID, at.project)
	for _, l := range limits {
		if have := *l.value(&was.Limits); have != nil {
			view = view.With(string(l.key), at.own, int64(*have)) // it may be on its way as well
		}
	}
	for _, l := range changed {
		want := **l.value(&set)
		*l.value(&is.Limits) = &want
		is.Version++
		view = view.With(string(l.key), at.own, int64(want))
	}
	for _, l := range limits {
		*l.effective(&is) = view.Minor(l.key)
	}
	return is
}

// limits reads the desired objects and returns the view for display.
func (s *Service) limits(ctx context.Context, q pg.Queryer, at place) (LimitsView, []limitObject, error) {
	keys := make([]string, len(limits))
	for i, l := range limits {
		keys[i] = string(l.key)
	}
	found, err := s.limitObjects(ctx, q, keys, at)
	if err != nil {
		return LimitsView{}, nil, err
	}
	v := LimitsView{Project: at.project, Currency: at.tenant.Currency, Version: 1}
	view := s.Policy(at.tenant.ID, at.project)
	for _, d := range found {
		v.Version += d.version
		view = view.With(d.key, at.own, d.value)
		for _, l := range limits {
			if string(l.key) != d.key {
				continue
			}
			value := money.Minor(d.value)
			*l.value(&v.Limits) = &value
			if d.byGit {
				*l.managed(&v) = d.source.String()
			}
		}
	}
	for _, l := range limits {
		*l.effective(&v) = view.Minor(l.key)
	}
	return v, found, nil
}

// check validates each limit against the definition of its policy key.
func (set Limits) check(scope policies.Scope) error {
	for _, l := range limits {
		want := *l.value(&set)
		if want == nil {
			continue
		}
		if _, fault := policies.Check(string(l.key), string(scope), int64(*want)); fault != nil {
			return errs.Invalid(l.field, "%s", fault.Message).Try("expected %s", fault.Expected)
		}
	}
	return nil
}

// place returns the tenant or project of the limits. A project of another tenant is not found.
func (s *Service) place(ctx context.Context, c identity.Caller, project ids.Project) (place, error) {
	tenant, err := s.Identity.Tenant(ctx, c)
	if err != nil {
		return place{}, err
	}
	at := place{tenant: tenant, project: project}
	if project == (ids.Project{}) {
		at.id = tenant.ID.String()
		at.own = policies.In(policies.LevelTenant, at.id)
		at.urn = s.urn(tenant.ID)
		return at, nil
	}
	if _, err := s.Identity.ProjectByID(ctx, c, project); err != nil {
		return place{}, err
	}
	at.id = project.String()
	at.own = policies.In(policies.LevelProject, at.id)
	at.urn = s.Naming.Name(tenant.ID.String(), at.id, "project", at.id).String()
	return at, nil
}

func (s *Service) noteLimits(ctx context.Context, tx pgx.Tx, by identity.Caller, at place, was, is LimitsView) error {
	b := &pgx.Batch{}
	audit.Queue(b, audit.Entry{
		Tenant: at.tenant.ID, By: by.Cause(), Action: "billing.set_limits", Target: at.urn,
		Before: was.fields(), After: is.fields(),
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("noting who changed limits: %w", err)
	}
	return nil
}

func (v LimitsView) fields() map[string]any {
	fields := map[string]any{}
	for _, l := range limits {
		fields[l.field] = *l.value(&v.Limits)
	}
	return fields
}

func reply[T any](ch identity.Change[T], made T) identity.Reply {
	if ch.Key.Key == "" || ch.Answer == nil {
		return identity.Reply{}
	}
	return ch.Answer(made)
}
