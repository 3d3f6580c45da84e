package manage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// IdleRule states when an allocation is idle, and what follows.
type IdleRule struct {
	After       time.Duration // without use of its GPUs, until its release is announced; zero: never
	Warning     time.Duration // from the announcement to the release
	Utilisation int           // percent up to which a GPU is idle
	AtOnce      int           // releases of idle allocations in ten minutes
}

// IdleRules returns the rule of each project from one policy revision, and whether a rule releases any allocation.
type IdleRules func() (rule func(ids.Tenant, ids.Project) IdleRule, some bool)

// IdleRulesFrom reads the rules from a client's memory.
func IdleRulesFrom(client *policies.Client) IdleRules {
	const key = policies.AllocationIdleStopMinutes
	return func() (func(ids.Tenant, ids.Project) IdleRule, bool) {
		now := client.Latest()
		scopes := append(now.ScopesOf(string(key), policies.LevelTenant), now.ScopesOf(string(key), policies.LevelProject)...)
		some := now.For().Int(key) > 0 || slices.ContainsFunc(scopes, func(at policies.Scope) bool { return now.For(at).Int(key) > 0 })
		return func(tenant ids.Tenant, project ids.Project) IdleRule {
			v := now.For(identity.TenantScopes(tenant, project)...)
			return IdleRule{
				After: time.Duration(v.Int(key)) * time.Minute, Warning: time.Duration(v.Int(policies.AllocationExpiryWarningMinutes)) * time.Minute,
				Utilisation: int(v.Int(policies.AllocationIdleGPUPercent)), AtOnce: int(v.Int(policies.NodeMassReleaseLimit)),
			}
		}, some
	}
}

// StopIdle notifies tenants of the releases of allocations of which no GPU is used, and releases those that were idle
// until the announced time.
func (s *Service) StopIdle(ctx context.Context) error {
	changed, err := s.stopAllIdle(ctx)
	if changed > 0 {
		s.Desired.Hint()
		s.Hints.Send(event.Topic)
	}
	return err
}

// stopAllIdle announces the release of allocations that became idle, withdraws the announcement where a GPU is in use again,
// and releases allocations that were idle until the announced time. It returns the number of these changes. Without a rule
// it reads only those with an announcement.
func (s *Service) stopAllIdle(ctx context.Context) (changed int, err error) {
	rule, some := s.IdleRules()
	rows, _ := s.DB.Query(ctx, selectIdle, some) // CollectRows returns the error
	of, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return 0, fmt.Errorf("listing active allocations: %w", err)
	}
	var failures []error
	for page := range slices.Chunk(of, idlePage) {
		list, err := s.Some(ctx, page)
		failures = append(failures, err)
		for _, a := range list {
			did, err := s.stopIdle(ctx, a, rule(a.Tenant, a.Project))
			failures = append(failures, err)
			changed += did
		}
	}
	return changed, errors.Join(failures...)
}

const idlePage = 500

// readingsEnd returns the time until which all readings are stored: a minute is stored with the first report after it.
func (s *Service) readingsEnd() time.Time {
	return s.Clock.Now().UTC().Truncate(time.Minute).Add(-time.Minute)
}

func (s *Service) stopIdle(ctx context.Context, a allocation.Allocation, rule IdleRule) (changed int, err error) {
	to := s.readingsEnd()
	idle, err := s.idle(ctx, a, rule, to)
	if err != nil || idle == (a.IdleReleaseAt != nil) && !ended(a, to) {
		return 0, err
	}
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		now, err := s.Lock(ctx, tx, a.ID)
		if err != nil || now.State != allocation.Active || (now.IdleReleaseAt == nil) != (a.IdleReleaseAt == nil) {
			return err
		}
		changed = 1
		why := fmt.Sprintf("its GPUs were idle for %s", rule.After)
		switch {
		case !idle:
			return s.ScheduleIdle(ctx, tx, now, nil, "its GPUs are in use, some of their readings are missing, or the policy has changed")
		case now.IdleReleaseAt == nil:
			at := s.Clock.Now().Add(rule.Warning)
			return s.ScheduleIdle(ctx, tx, now, &at, why)
		}
		// A fault of the readings must not empty the fleet at once.
		var released int
		if err := tx.QueryRow(ctx, countIdleReleases).Scan(&released); err != nil || released >= rule.AtOnce {
			changed = 0
			return err
		}
		return s.ReleaseIdle(ctx, tx, now, why)
	})
	if err != nil {
		return 0, fmt.Errorf("stopping idle allocation %s: %w", a.ID, err)
	}
	return changed, nil
}

// ended reports whether the readings reach the announced time: use until then prevents the release.
func ended(a allocation.Allocation, to time.Time) bool {
	return a.IdleReleaseAt != nil && !to.Before(*a.IdleReleaseAt)
}

// idle reports whether all GPUs of an allocation were idle in the period of the rule. The node reports the readings, so a
// false one affects only an allocation that is placed on that node.
func (s *Service) idle(ctx context.Context, a allocation.Allocation, rule IdleRule, to time.Time) (bool, error) {
	from := to.Add(-rule.After)
	if rule.After == 0 || a.Paused != "" || a.ActiveAt == nil || a.ActiveAt.After(from) {
		return false, nil
	}
	gpus, err := s.Inventory.GPUsOf(ctx, s.DB, a.ID)
	if err != nil {
		return false, err
	}
	return s.GPUsIdle(ctx, a.Node, gpus, from, to, rule.Utilisation)
}

const (
	selectIdle        = `SELECT id FROM allocations WHERE status = 'active' AND ($1 OR idle_release_at IS NOT NULL)`
	countIdleReleases = `SELECT count(*) FROM allocations WHERE reason = 'idle' AND status_at > now() - interval '10 minutes'`
)
