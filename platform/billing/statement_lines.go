package billing

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// Statement is a month with every line of it.
type Statement struct {
	Totals
	Tenant    identity.Tenant
	Uses      []Use
	Stored    []Stored
	Movements []ledger.Entry
}

// Use is the charged usage of one allocation in a month.
type Use struct {
	metering.Usage

	ProjectName string
}

// Stored is the charged use of files of one project in a month.
type Stored struct {
	metering.StoredUse

	ProjectName string
}

// ProjectSum is the usage of one project in a month. The sums of all projects are the usage of the month.
type ProjectSum struct {
	Project                ids.Project
	Name                   string
	Seconds                int64
	CostMinor, CreditMinor money.Minor
	NetMinor               money.Minor
}

// Projects sums up the usage by project, by name.
func (st Statement) Projects() []ProjectSum {
	sums := map[ids.Project]ProjectSum{}
	for _, u := range st.Uses {
		p := sums[u.Project]
		p.Project, p.Name = u.Project, u.ProjectName
		p.Seconds, p.CostMinor, p.CreditMinor, p.NetMinor = p.Seconds+u.Seconds, p.CostMinor+u.CostMinor, p.CreditMinor+u.CreditMinor, p.NetMinor+u.NetMinor
		sums[u.Project] = p
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b ProjectSum) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Project.String(), b.Project.String()))
	})
}

// Statement reads that of a month. One from before the first entry, or from the
// future, is not there. It is read as a whole, and has a line for each allocation:
// no transaction waits for a slow reader.
func (s *Statements) Statement(ctx context.Context, tenant ids.Tenant, m time.Time) (st Statement, err error) {
	if st.Tenant, err = s.Identity.TenantByID(ctx, tenant); err != nil {
		return Statement{}, err
	}
	err = s.still(ctx, func(at *Statements) (err error) {
		if st.Totals, err = at.totalsOf(ctx, tenant, m); err != nil {
			return err
		}
		if st.Uses, err = at.use(ctx, tenant, st.Totals); err != nil {
			return err
		}
		if st.Stored, err = at.stored(ctx, tenant, st.Totals); err != nil {
			return err
		}
		return at.Ledger.EachMovement(ctx, tenant, st.From, st.To, func(e ledger.Entry) error {
			st.Movements = append(st.Movements, e)
			return nil
		})
	})
	return st, err
}

func (s *Statements) totalsOf(ctx context.Context, tenant ids.Tenant, m time.Time) (Totals, error) {
	m = month(m)
	first, last, err := s.span(ctx, tenant)
	switch {
	case err != nil && errs.CodeOf(err) != errs.NotFound:
		return Totals{}, err
	case err != nil, m.Before(first), m.After(last):
		return Totals{}, errs.New(errs.NotFound, "no statement of %s", m.Format("2006-01")).Try("list the statements")
	}
	list, err := s.totals(ctx, tenant, m, next(m))
	if err != nil {
		return Totals{}, err
	}
	return list[0], nil
}

// use returns the usage that the ledger's entries of the month consist of. For the current month it ends
// where charging has stopped.
func (s *Statements) use(ctx context.Context, tenant ids.Tenant, t Totals) (all []Use, err error) {
	to, err := s.chargedOf(ctx, tenant, t)
	if err != nil || !to.After(t.From) {
		return nil, err
	}
	q := metering.Query{Tenant: tenant, From: t.From, To: to, By: metering.ByAllocation}
	err = s.Metering.EachUsage(ctx, q, func(u metering.Usage) error {
		all = append(all, Use{Usage: u})
		return nil
	})
	if err != nil {
		return nil, err
	}
	names, err := s.namesOf(ctx, all)
	for i := range all {
		all[i].ProjectName = names[all[i].Project.UUID]
	}
	return all, err
}

// chargedOf returns the end of the part of the month that is charged.
func (s *Statements) chargedOf(ctx context.Context, tenant ids.Tenant, t Totals) (time.Time, error) {
	to, err := s.Metering.ChargedTo(ctx, s.DB, tenant)
	if to.After(t.To) {
		to = t.To
	}
	return to, err
}

// stored returns the use of files that the ledger's entries of the month consist of, by project.
func (s *Statements) stored(ctx context.Context, tenant ids.Tenant, t Totals) (all []Stored, err error) {
	to, err := s.chargedOf(ctx, tenant, t)
	if err != nil || !to.After(t.From) {
		return nil, err
	}
	uses, err := s.Metering.StoredUses(ctx, metering.Query{Tenant: tenant, From: t.From, To: to})
	if err != nil || len(uses) == 0 {
		return nil, err
	}
	projects := make([]uuid.UUID, len(uses))
	for i, u := range uses {
		projects[i] = u.Project.UUID
	}
	names, err := s.Identity.NamesOf(ctx, s.DB, projects)
	for _, u := range uses {
		all = append(all, Stored{u, names[u.Project.UUID]})
	}
	return all, err
}

func (s *Statements) namesOf(ctx context.Context, list []Use) (map[uuid.UUID]string, error) {
	projects := make([]uuid.UUID, len(list))
	for i, u := range list {
		projects[i] = u.Project.UUID
	}
	return s.Identity.NamesOf(ctx, s.DB, projects)
}

// Sums are the columns of a month by their name, for those who show them.
func (t Totals) Sums() []Sum {
	return []Sum{
		{"Top-ups", t.TopUps},
		{"Use", t.Usage},
		{"Files", t.Storage},
		{"Credits for faults of the platform", t.Credits},
		{"Refunds", t.Refunds},
		{"Corrections", t.Adjustments},
	}
}

// Sum is one of them.
type Sum struct {
	What string
	Sum  money.Minor
}
