package server

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/gitops/change"
	gitopssync "github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/platform/backup/record"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/access"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/reconciler"
)

// The subjects for which the policies are read.
const (
	ofSKU, ofNode, ofRegion = "h100", "gpu-1", "eu1"
)

var caller = identity.Caller{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project](), User: ids.New[ids.User]()}

// subject returns the scope of a level among them.
func subject(level policies.Level) policies.Scope {
	name := map[policies.Level]string{
		policies.LevelRegion: ofRegion, policies.LevelSKU: ofSKU, policies.LevelNode: ofNode,
		policies.LevelTenant: caller.Tenant.String(), policies.LevelProject: caller.Project.String(), policies.LevelUser: caller.User.String(),
	}[level]
	if level == policies.LevelPlatform {
		return policies.Platform
	}
	return policies.In(level, name)
}

// policyReaders are the functions through which decisions receive policy values, each with the result for the
// subjects above. A new reader is one line.
func policyReaders(c *policies.Client) map[string]func() any {
	view := identity.PolicyFrom(c)
	return map[string]func() any{
		"product/allocation.LimitsFrom":       func() any { return allocation.LimitsFrom(c)(caller) },
		"product/allocation.LoginLifeFrom":    func() any { return allocation.LoginLifeFrom(c)() },
		"product/allocation/access.RulesFrom": func() any { return access.RulesFrom(c)(caller.Tenant, caller.Project) },
		"product/storage.LimitsFrom":          func() any { return storage.LimitsFrom(c)(caller.Tenant, caller.Project) },
		"product/terminal.LimitsFrom":         func() any { return terminal.LimitsFrom(c)(caller.Tenant, caller.Project) },
		"services.addProduct":                 func() any { return c.BySKU(policies.AllocationIsolationModel)(ofSKU) },
		"product/allocation.ExpiryWarningsFrom": func() any {
			platform, own := allocation.ExpiryWarningsFrom(c)()
			return []any{platform, own}
		},
		"product/allocation/manage.IdleRulesFrom": func() any {
			rule, _ := manage.IdleRulesFrom(c)()
			return rule(caller.Tenant, caller.Project)
		},
		"product/slots.RulesFrom":       func() any { return slots.RulesFrom(c)() },
		"product/fleet.DrainGraceFrom":  func() any { return fleet.DrainGraceFrom(c)(ofNode) },
		"product/fleet.TokenLifeFrom":   func() any { return fleet.TokenLifeFrom(c)() },
		"product/fleet.InspectionsFrom": func() any { return fleet.InspectionsFrom(c)() },
		"jobs/retention.Run": func() any {
			v := c.Latest().For()
			return []any{v.Int(policies.EventOutboxDays), v.Int(policies.AuditDays), v.Int(policies.HistoryDays), v.Int(policies.APIIdempotencyHours), v.Int(policies.TerminalRecordingDays), v.Int(policies.EvidenceDays)}
		},
		"platform/backup/record.RulesFrom": func() any { return record.RulesFrom(c)() },
		"jobs/evidence.since":              func() any { return c.Latest().For().Int(policies.EvidenceDays) },
		"product/nodehealth.FaultRules":    func() any { return nodehealth.FaultRulesFrom(c)(ofSKU) },
		"platform/payment.LimitsFrom":      func() any { return payment.LimitsFrom(c)(caller) },
		"gitops/sync.RulesFrom":            func() any { return gitopssync.RulesFrom(c)() },
		"gitops/change.RulesFrom":          func() any { return change.RulesFrom(c)() },
		"reconciler.LimitsFrom":            func() any { return reconciler.LimitsFrom(c)() },
		"jobs.PolicyFrom": func() any {
			p := jobs.PolicyFrom(c)
			return []any{p.Window(), p.ObservationStale(), p.Sweeping(), p.Logins(ofSKU, ofRegion)}
		},
		"jobs.rollAgents": func() any {
			return []any{c.Latest().For().Int(policies.NodeUpdateRingPercent), c.Latest().For(subject(policies.LevelNode)).String(policies.NodeAgentVersion)}
		},
		"server.serveNodes": func() any {
			node := ids.Node{UUID: uuid.Max}
			p := &periods{policies: c, names: func(context.Context) (map[uuid.UUID]string, error) {
				return map[uuid.UUID]string{node.UUID: ofNode}, nil
			}}
			return []any{p.refresh(context.Background()), reportEvery(p.view(node)), staleAfter(p.view(node)), c.Latest().For().Int(policies.NodeCertificateTTLHours)}
		},
		"platform/event.RetentionFrom": func() any { return event.RetentionFrom(c)() },
		"platform/notification.effect": func() any {
			v := notification.PolicyFrom(c)(caller.Tenant, ids.Project{}, caller.User)
			return []any{v.Bool(policies.NotificationLowBalanceEnabled), v.Bool(policies.NotificationBalanceDepletedEnabled), v.Bool(policies.NotificationProvisioningEnabled), v.Bool(policies.NotificationEmailEnabled)}
		},
		"api/rest/middleware.NoticeFrom":                 func() any { return middleware.NoticeFrom(c, func() string { return "" })() },
		"platform/notification/webhook.MaxEndpointsFrom": func() any { return webhook.MaxEndpointsFrom(c)(caller.Tenant) },
		"platform/billing.terms": func() any {
			v := billing.PolicyFrom(c)(caller.Tenant, ids.Project{})
			return []any{v.Minor(policies.BillingLowBalanceThresholdMinor), v.Int(policies.BillingLowBalanceReminderHours), v.Int(policies.BillingAutoReleaseGraceMinutes), v.Int(policies.StorageGraceDays)}
		},
		"api/rest/middleware.LimitOf": func() any {
			all := []any{}
			for class := range request.Classes {
				all = append(all, middleware.LimitOf(class, view(caller)))
			}
			return all
		},
		"platform/identity": func() any {
			v, own, platform := view(caller), view(identity.Caller{Tenant: caller.Tenant}), view(identity.Caller{})
			return []any{
				v.Bool(policies.AuthAPIKeysEnabled), v.Int(policies.AuthServiceAccountTokenTTLSeconds), own.Int(policies.AuthSessionMaxHours),
				platform.Bool(policies.AuthPersonalLoginEnabled), platform.Int(policies.AuthStepUpMinutes), platform.Int(policies.AuthProviderCheckMinutes), platform.String(policies.AuthAdminAcr),
				platform.String(policies.BillingCurrency),
			}
		},
	}
}

// needs are settings without which a key has no effect.
var needs = map[string]struct {
	key   string
	value any
}{
	"node.partition.stop_after_hours": {"node.partition.action", "stop"},
	"node.partition.action":           {"node.partition.stop_after_hours", 1},
}

// TestEveryPolicyKeyIsInForce sets each key at each of its scopes to another value, and compares what every reader
// returns. A key that changes nothing must be marked notInForce, and a marked key must be rejected.
func TestEveryPolicyKeyIsInForce(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	c := &policies.Client{DB: db, Hints: &hint.Bus{}, Log: slog.New(slog.DiscardHandler)}
	readers := policyReaders(c)
	read := func() string {
		if _, err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := []string{}
		for name, value := range readers {
			all = append(all, fmt.Sprintf("%s: %+v", name, value()))
		}
		slices.Sort(all)
		return fmt.Sprint(all)
	}
	set := func(key string, at policies.Scope, value any) error {
		return pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			object := ids.Object{UUID: uuid.NewSHA1(uuid.Nil, []byte(key+string(at)))}
			return c.Set(t.Context(), tx, policies.Applied{Key: key, Scope: at, Subject: at, Value: value, Source: "user:x", Object: object})
		})
	}
	unset := func(key string, at policies.Scope) {
		if err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error { return c.Unset(t.Context(), tx, key, at) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range policies.Keys() {
		if need, ok := needs[k.Name]; ok {
			if err := set(need.key, policies.Platform, need.value); err != nil {
				t.Fatal(err)
			}
		}
		for _, level := range k.Scopes {
			before, at := read(), subject(level)
			err := set(k.Name, at, another(k))
			if k.NotInForce != "" {
				if err == nil {
					t.Errorf("%s is not in force, and a value was accepted", k.Name)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s at %s: %v", k.Name, at, err)
				continue
			}
			if read() == before {
				t.Errorf("%s at %s changes nothing: read it, remove the scope, or state in policies/keys.cue why it is not in force", k.Name, level)
			}
			unset(k.Name, at)
		}
		if need, ok := needs[k.Name]; ok {
			unset(need.key, policies.Platform)
		}
	}
}

// another returns a valid value of a key that is not the default.
func another(k policies.Key) any {
	switch d := k.Default.(type) {
	case bool:
		return !d
	case int64:
		if d < k.Max {
			return d + 1
		}
		return d - 1
	case []string:
		for _, v := range k.Values {
			if !slices.Equal(d, []string{v}) {
				return []string{v}
			}
		}
	case string:
		for _, v := range append(slices.Clone(k.Values), "USD", "1.2.3") {
			if v != d && (k.Pattern == "" || regexp.MustCompile(k.Pattern).MatchString(v)) {
				return v
			}
		}
	}
	return nil
}
