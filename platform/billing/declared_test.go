package billing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

// limited is the service with the database role of the API.
type limited struct {
	*allocationtest.Fixture
	*billing.Service

	policies *policies.Client
	ctx      context.Context //nolint:containedctx // the scope of every call in a test
}

func limit(t *testing.T) limited {
	t.Helper()
	w := allocationtest.New(t, 1000)
	db := pgtest.Scoped(t, w.DB)
	values := &policies.Client{DB: w.DB, Hints: w.Hints, Log: slog.New(slog.DiscardHandler)}
	_, err := values.Refresh(t.Context())
	must(t, err)
	w.Caller.TenantRole = "owner"
	return limited{w, &billing.Service{
		DB: db, Identity: &identity.Service{DB: db}, Policies: values, Policy: billing.PolicyFrom(values), Naming: ids.DefaultNaming, Hints: w.Hints,
		Desired: &desired.Store{DB: db, Hints: w.Hints, Check: validate.NewLazy().Check},
	}, values, pg.WithScope(t.Context(), w.Caller.Scope(false))}
}

func (l limited) set(project ids.Project, version int64, hourly, monthly *money.Minor) (billing.LimitsView, error) {
	return l.SetLimits(l.ctx, identity.Change[billing.LimitsView]{Caller: l.Caller}, project, version, billing.Limits{HourlySpendMinor: hourly, MonthlyBudgetMinor: monthly})
}

// carryOut does what the loop's job does with a declared policy.
func (l limited) carryOut(t *testing.T) {
	t.Helper()
	found, err := l.Fixture.Desired.List(t.Context(), desired.KindPolicy, "", 100)
	must(t, err)
	for _, o := range found {
		var spec desired.Policy
		must(t, json.Unmarshal(o.Spec, &spec))
		l.Do(t, func(tx pgx.Tx) error {
			scope := policies.Scope(spec.Scope)
			subjects, err := l.Identity.ScopeSubjects(t.Context(), tx, []policies.Scope{scope})
			if err != nil {
				return err
			}
			return l.policies.Set(t.Context(), tx, policies.Applied{Key: spec.Key, Scope: scope, Subject: subjects[scope], Value: spec.Value, Source: o.Source.String(), Object: o.UID})
		})
	}
	_, err = l.policies.Refresh(t.Context())
	must(t, err)
}

// git declares a policy as a file does.
func (l limited) git(t *testing.T, key, scope string, value int64) {
	t.Helper()
	spec, err := json.Marshal(desired.Policy{Key: key, Scope: scope, Value: value})
	must(t, err)
	_, err = (&revision.Store{Store: l.Fixture.Desired}).Apply(t.Context(), revision.Snapshot{Source: "r", Repository: "r", Commit: "c", TreeHash: "t", Objects: []desired.Object{{
		Kind: desired.KindPolicy, Name: "theirs", Spec: spec, Source: desired.Source{Owner: desired.OwnerGit, Repository: "r", Commit: "c", Path: "policies.cue", Line: 7, Column: 2},
	}}}, nil)
	must(t, err)
}

// The limits of a tenant are put as desired objects, displayed immediately as they will be, applied by
// the control loop, and survive a change of the tenant's name.
func TestLimitsAreDeclared(t *testing.T) {
	t.Parallel()
	l := limit(t)
	v, err := l.Service.Limits(l.ctx, l.Caller, ids.Project{})
	must(t, err)
	if v.HourlySpendMinor != nil || v.EffectiveHourlyMinor != 8000 || v.EffectiveMonthlyMinor != 0 || v.Version != 1 || v.Currency != "EUR" {
		t.Errorf("at first: %+v", v)
	}
	diff := pgtest.Diff(t, l.Fixture.DB)
	set, err := l.set(ids.Project{}, v.Version, new(money.Minor(5000)), new(money.Minor(90000)))
	must(t, err)
	if *set.HourlySpendMinor != 5000 || *set.MonthlyBudgetMinor != 90000 || set.EffectiveHourlyMinor != 5000 || set.EffectiveMonthlyMinor != 90000 || set.Version <= v.Version {
		t.Errorf("set: %+v", set)
	}
	changed := diff()
	for table, n := range map[string]int{"desired_objects": 2, "audit_logs": 1, "reconcile_due": 2} {
		if got := strings.Count(changed, "+ "+table+" "); got != n {
			t.Errorf("%d rows of %s, want %d\n%s", got, table, n, changed)
		}
	}
	again, err := l.Service.Limits(l.ctx, l.Caller, ids.Project{})
	must(t, err)
	if fmt.Sprint(*again.HourlySpendMinor, again.EffectiveHourlyMinor, again.Version) != fmt.Sprint(5000, 5000, set.Version) {
		t.Errorf("read again: %+v", again)
	}
	l.carryOut(t)
	if got := allocation.LimitsFrom(l.policies)(identity.Caller{Tenant: l.Caller.Tenant, TenantName: "renamed"}); got.HourlyTenant != 5000 || got.MonthlyTenant != 90000 {
		t.Errorf("in force: %+v", got)
	}
	set, err = l.set(ids.Project{}, set.Version, new(money.Minor(5000)), nil)
	must(t, err)
	if set.Version != again.Version || *set.MonthlyBudgetMinor != 90000 {
		t.Errorf("nothing was changed, and yet %+v", set)
	}
}

// A project's limit is capped by its tenant's. The two have separate versions.
func TestLimitsOfAProject(t *testing.T) {
	t.Parallel()
	l := limit(t)
	_, err := l.set(ids.Project{}, 0, new(money.Minor(5000)), nil)
	must(t, err)
	l.carryOut(t)
	v, err := l.set(l.Caller.Project, 1, new(money.Minor(7000)), new(money.Minor(100)))
	must(t, err)
	if *v.HourlySpendMinor != 7000 || v.EffectiveHourlyMinor != 5000 || v.EffectiveMonthlyMinor != 100 {
		t.Errorf("set: %+v", v)
	}
	v, err = l.set(l.Caller.Project, v.Version, new(money.Minor(0)), nil)
	must(t, err)
	if v.EffectiveHourlyMinor != 5000 {
		t.Errorf("without a limit of its own: %+v", v)
	}
	l.carryOut(t)
	if got := allocation.LimitsFrom(l.policies)(l.Caller); got.HourlyProject != 5000 || got.HourlyTenant != 5000 || got.MonthlyProject != 100 || got.MonthlyTenant != 0 {
		t.Errorf("in force: %+v", got)
	}
}

// A rejected limit changes nothing.
func TestLimitsRejected(t *testing.T) {
	t.Parallel()
	l := limit(t)
	l.git(t, "billing.monthly_budget_minor", "project:"+l.Caller.Project.String(), 700)
	first, err := l.set(l.Caller.Project, 0, new(money.Minor(4000)), nil)
	must(t, err)
	foreign := ids.New[ids.Project]()
	l.Do(t, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO tenants (id, name) VALUES ($1, 'other')`, foreign.UUID)
		b.Queue(`INSERT INTO projects (id, org_id, name) VALUES ($1, $1, 'p')`, foreign.UUID)
		return tx.SendBatch(t.Context(), b).Close()
	})
	diff := pgtest.Diff(t, l.Fixture.DB)
	for name, c := range map[string]struct {
		project         ids.Project
		version         int64
		hourly, monthly *money.Minor
		code            errs.Code
		field           string
	}{
		"an older version":            {l.Caller.Project, first.Version - 1, new(money.Minor(1)), nil, errs.VersionMismatch, ""},
		"below zero":                  {l.Caller.Project, 0, new(money.Minor(-1)), nil, errs.ValidationError, "hourly_spend_limit_minor"},
		"above the bound":             {ids.Project{}, 0, nil, new(money.Minor(1e11 + 1)), errs.ValidationError, "monthly_budget_minor"},
		"owned by Git":                {l.Caller.Project, 0, nil, new(money.Minor(1)), errs.ManagedByGit, "monthly_budget_minor"},
		"another tenant's project":    {foreign, 0, new(money.Minor(1)), nil, errs.NotFound, ""},
		"a project that is not there": {ids.New[ids.Project](), 0, new(money.Minor(1)), nil, errs.NotFound, ""},
	} {
		_, err := l.set(c.project, c.version, c.hourly, c.monthly)
		coded, _ := errors.AsType[*errs.Error](err)
		if coded == nil || coded.Code != c.code || coded.Field != c.field {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.code == errs.ManagedByGit && (!strings.Contains(coded.Message, "policies.cue:7:2") || coded.Details["source"] == nil) {
			t.Errorf("%s: %s, %v", name, coded.Message, coded.Details)
		}
	}
	if left := diff(); left != "" {
		t.Errorf("refusals left\n%s", left)
	}
	v, err := l.Service.Limits(l.ctx, l.Caller, l.Caller.Project)
	must(t, err)
	if v.MonthlyManagedBy != "policies.cue:7:2" || v.HourlyManagedBy != "" || *v.MonthlyBudgetMinor != 700 {
		t.Errorf("displayed as %+v", v)
	}
	if _, err := l.Service.Limits(l.ctx, l.Caller, foreign); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("another tenant's: %v", err)
	}
}

// A limit in Git that names the tenant applies to the tenant as well.
func TestLimitsOfATenantInGit(t *testing.T) {
	t.Parallel()
	l := limit(t)
	tenant, err := l.Identity.Tenant(l.ctx, l.Caller)
	must(t, err)
	l.git(t, "billing.hourly_spend_limit_minor", "tenant:"+tenant.Name, 600)
	if _, err := l.set(ids.Project{}, 0, new(money.Minor(1)), nil); errs.CodeOf(err) != errs.ManagedByGit {
		t.Errorf("set: %v", err)
	}
	v, err := l.Service.Limits(l.ctx, l.Caller, ids.Project{})
	must(t, err)
	if v.EffectiveHourlyMinor != 600 || v.HourlyManagedBy == "" {
		t.Errorf("displayed as %+v", v)
	}
}

// A rename is no way out of a limit that Git declares by name, and the next tenant with the name does
// not get it.
func TestARenamedTenantKeepsItsLimit(t *testing.T) {
	t.Parallel()
	l := limit(t)
	tenant, err := l.Identity.Tenant(l.ctx, l.Caller)
	must(t, err)
	l.git(t, "billing.hourly_spend_limit_minor", "tenant:"+tenant.Name, 600)
	l.carryOut(t)
	heir := ids.New[ids.Tenant]()
	for sql, args := range map[string][]any{
		`UPDATE tenants SET name = 'renamed' WHERE id = $1`: {tenant.ID}, `INSERT INTO tenants (id, name) VALUES ($1, 'heir')`: {heir},
	} {
		_, err := l.Fixture.DB.Exec(t.Context(), sql, args...)
		must(t, err)
	}
	_, err = l.Fixture.DB.Exec(t.Context(), `UPDATE tenants SET name = $2 WHERE id = $1`, heir, tenant.Name)
	must(t, err)
	l.carryOut(t)
	limits := allocation.LimitsFrom(l.policies)
	if got := limits(identity.Caller{Tenant: tenant.ID, TenantName: "renamed"}).HourlyTenant; got != 600 {
		t.Errorf("after the rename the limit is %d", got)
	}
	if got := limits(identity.Caller{Tenant: heir, TenantName: tenant.Name}).HourlyTenant; got == 600 {
		t.Error("another tenant has the limit with the name")
	}
	if v, err := l.Service.Limits(l.ctx, l.Caller, ids.Project{}); err != nil || v.EffectiveHourlyMinor != 600 || v.HourlyManagedBy == "" {
		t.Errorf("displayed as %+v, %v", v, err)
	}
	if _, err := l.set(ids.Project{}, 0, new(money.Minor(1)), nil); errs.CodeOf(err) != errs.ManagedByGit {
		t.Errorf("set: %v", err)
	}
}

// Of many who change the same version at once, one does.
func TestLimitsAtOnce(t *testing.T) {
	t.Parallel()
	l := limit(t)
	first, err := l.set(ids.Project{}, 0, new(money.Minor(1)), nil)
	must(t, err)
	var all sync.WaitGroup
	results := make([]error, 16)
	for i := range results {
		all.Go(func() { _, results[i] = l.set(ids.Project{}, first.Version, new(money.Minor(100+i)), nil) })
	}
	all.Wait()
	won := 0
	for _, err := range results {
		switch {
		case err == nil:
			won++
		case errs.CodeOf(err) != errs.VersionMismatch:
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d of one version won", won)
	}
}
