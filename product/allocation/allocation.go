// Package allocation owns the promise of slots to a project for a while: its
// rows, its states and their history. It alone moves an allocation's status; it
// starts nothing, because declaring is enough.
package allocation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation/hostuid"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
)

// Service implements the use cases of allocations.
type Service struct {
	DB        pg.Pool
	Desired   *desired.Store
	Inventory *nodehealth.Service
	Catalog   *catalog.Service
	Identity  *identity.Service
	Metering  *metering.Service
	// MountKeys makes the access keys of mounts.
	MountKeys *accesskey.Service
	// Limits reads one policy revision for one decision.
	Limits func(identity.Caller) Limits
	// Isolation returns the weakest isolation of tenants that is allowed for an SKU.
	Isolation func(sku string) string
	// ExpiryWarnings returns how long before its end an allocation is announced, and other values of tenants.
	ExpiryWarnings func() (time.Duration, map[ids.Tenant]time.Duration)
	// Signs makes login certificates that live for LoginLife; nil disables logins.
	Signs     Signs
	LoginLife func() time.Duration
	Naming    ids.Naming
	Hints     *hint.Bus
	Clock     clock.Clock

	uids  hostuid.Blocks
	lines keys.Lines
}

// Limits are the policy values of one request.
type Limits struct {
	PerUser, PerProject, PerTenant int
	MaxGPUs                        int
	MinimumRunway                  time.Duration
	HourlyProject, HourlyTenant    money.Minor   // what all of it may cost; 0: anything
	MonthlyProject, MonthlyTenant  money.Minor   // once spent, nothing more is started; 0: any
	DefaultTTL, MaxTTL             time.Duration // 0: none
	QueueWait                      time.Duration // how long a request may wait for capacity; 0: not at all
	Admission                      policies.Admission
}

// Allocation is one promise.
type Allocation struct {
	ID         ids.Allocation
	Tenant     ids.Tenant
	Project    ids.Project
	User       ids.User
	Name       string
	SKU        string
	Region     string
	GPUs       int
	Node       ids.Node
	PriceMinor money.Minor // per GPU and hour
	Currency   string
	Login      string // account on the node
	HostUID    int
	State      State
	Reason     string // of a release or failure
	Message    string
	Labels     map[string]string
	Mounts     []desired.Mount // sorted by mount point
	// CorrelationID and Trace name the request that is being worked off, so that
	// what the loop does for it can be found by it.
	CorrelationID, Trace string
	Version              int64
	CreatedAt            time.Time
	StatusAt             time.Time
	UpdatedAt            time.Time // of the last transition, or the last change of name, labels or TTL
	ActiveAt             *time.Time
	EndedAt              *time.Time
	ExpiresAt            *time.Time
	// QueueUntil is the time at which a queued allocation is cancelled. It is nil once the allocation is
	// placed.
	QueueUntil *time.Time
	// Paused is the reason why an active allocation is not charged. It is empty while it is charged.
	Paused metering.Cause
	// EvictAt is the deadline of the eviction by a drain, EvictFor the operator who started the drain
	// and EvictReason the reason, as the tenant was notified. EvictAt is nil without an eviction.
	EvictAt               *time.Time
	EvictFor, EvictReason string
	// IdleReleaseAt is the announced release of an idle allocation; nil: none is announced.
	IdleReleaseAt *time.Time

	actor string // of the next transition; empty: the control loop
}

// Wanted returns the slots that the allocation needs.
func (a Allocation) Wanted() slots.Wanted {
	return slots.Wanted{SKU: a.SKU, Region: a.Region, GPUs: a.GPUs, Mounts: len(a.Mounts) > 0}
}

// URN is the allocation's resource name.
func (a Allocation) URN(n ids.Naming) string {
	if a.Region != "" {
		n.Region = a.Region
	}
	return n.Name(a.Tenant.String(), a.Project.String(), "allocation", a.ID.String()).String()
}

// Request is a request for slots.
type Request struct {
	Caller  identity.Caller
	Key     identity.Key
	SKU     string
	GPUs    int
	Region  string // empty: any
	Name    string // empty: one is made
	SSHKeys []ids.SSHKey
	Labels  map[string]string
	Mounts  []desired.Mount
	TTL     time.Duration // 0: the policy's default
	Queue   bool          // wait for capacity instead of an error
	// Answer builds the response. It is stored with the idempotency key in the same transaction, so that
	// a replay returns exactly the same response.
	Answer func(Allocation) identity.Reply
}

// placements is the number of attempts of a request while others claim the same slots. In each round at
// least one of them succeeds.
const placements = 5

// Request promises slots to a project whose tenant can pay. All it writes is one
// pipelined batch and one commit, or nothing.
func (s *Service) Request(ctx context.Context, r Request) (Allocation, error) {
	limits := s.Limits(r.Caller)
	if err := limits.Admission.Admit(r.Caller.Role); err != nil {
		return Allocation{}, err
	}
	offer, err := s.Catalog.ActiveSKU(ctx, r.SKU)
	if err != nil {
		return Allocation{}, err
	}
	a, err := s.draft(ctx, r, offer, limits)
	if err != nil {
		return Allocation{}, err
	}
	if err := s.budget(ctx, r.Caller, a.CreatedAt, limits); err != nil {
		return Allocation{}, err
	}
	for try := 1; ; try++ {
		// The transaction compares the lines, so the first attempt may use those of an earlier request.
		lines, err := s.lines.Read(ctx, s.DB, r.Caller, r.SSHKeys, a.CreatedAt, try > 1)
		if err != nil {
			return Allocation{}, err
		}
		// The cached free slots may be outdated: the claim decides.
		chosen, err := s.Inventory.Place(ctx, a.Wanted(), a.CreatedAt)
		if r.Queue && errs.CodeOf(err) == errs.SKUUnavailable {
			return s.enqueue(ctx, a, r, limits)
		}
		if err != nil {
			return Allocation{}, err
		}
		placed := a // the next attempt may use another node and region
		err = func() error {
			defer s.Inventory.Finished(chosen)
			return s.promise(ctx, &placed, r, chosen, lines, limits)
		}()
		if err == nil {
			s.Desired.Hint()
			s.Hints.Send(event.Topic)
			return placed, nil
		}
		// Only a failed claim proves that the cached free slots are outdated. A request that was
		// rejected for another reason must not cause a new read of all free slots.
		taken := errs.CodeOf(err) == errs.SKUUnavailable
		if taken {
			s.Inventory.Refresh(a.Wanted())
		}
		if !taken && !errors.Is(err, keys.ErrChanged) || try == placements {
			return Allocation{}, err
		}
	}
}

// promise is the one transaction of a request.
func (s *Service) promise(ctx context.Context, a *Allocation, r Request, chosen slots.Placement, lines []string, l Limits) error {
	a.Node = chosen.Node
	a.Region = chosen.Region
	declaration, err := s.declare(*a, chosen, lines, len(r.SSHKeys) == 0)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	s.Identity.QueueKey(b, r.Key, answer(r.Answer, *a)) // same key still at work: idempotency_in_flight
	identity.QueueLock(b, r.Caller)                     // tenant, project, principal: always in this sequence
	identity.QueueNotBarred(b, r.Caller, errs.New(errs.Forbidden, "you have no access any more"))
	keys.QueueAuthorizedKeys(b, r.Caller, r.SSHKeys, lines) // under those locks, as is what follows
	queueCaps(b, *a, l)
	slots.QueueClaim(b, a.ID, chosen)
	queueInsert(b, *a, noKeys, r.Caller.Actor())
	s.MountKeys.QueueMounts(b, r.Caller, a.ID, a.Node, a.Mounts)
	desired.QueuePut(b, declaration) // marks it due
	s.queueRequestAudit(b, *a, r.Caller)
	return s.commit(ctx, b, "allocation.request")
}

// noKeys: the desired object of a placed allocation contains the keys themselves.
var noKeys = []uuid.UUID{}

// queueRequestAudit writes the audit row of the request.
func (s *Service) queueRequestAudit(b *pgx.Batch, a Allocation, by identity.Caller) {
	audit.Queue(b, audit.Entry{
		Tenant: a.Tenant, By: by.Cause(), Action: "allocation.create", Target: a.URN(s.Naming),
		After: map[string]any{"sku": a.SKU, "gpus": a.GPUs, "name": a.Name, "mounts": a.Mounts},
	})
	event.Queue(b, s.requested(a, by))
}

// commit sends a batch as one transaction.
func (s *Service) commit(ctx context.Context, b *pgx.Batch, point string) error {
	if err := pg.Commit(ctx, s.DB, b, func() { failpoint.Hit(point + ".before_commit") }); err != nil {
		return err
	}
	failpoint.Hit(point + ".after_commit")
	return nil
}

func answer(by func(Allocation) identity.Reply, a Allocation) identity.Reply {
	if by == nil {
		return identity.Reply{}
	}
	return by(a)
}

// draft builds the allocation before its slots are chosen. It rejects a request that a policy or the SKU
// does not allow.
func (s *Service) draft(ctx context.Context, r Request, offer catalog.SKU, l Limits) (Allocation, error) {
	ttl := r.TTL
	if ttl == 0 {
		ttl = l.DefaultTTL
	}
	isolation := desired.StrongerIsolation(offer.Isolation, s.Isolation(r.SKU))
	switch most := min(offer.MaxGPUs, l.MaxGPUs); {
	case !desired.DeliversIsolation(isolation):
		return Allocation{}, errs.New(errs.IsolationUnavailable, "%s needs the isolation %s, which no node delivers", r.SKU, isolation).At("sku").Try("choose another SKU").With("isolation", isolation)
	case r.GPUs < 1 || r.GPUs > most:
		return Allocation{}, errs.Invalid("gpus", "must be between 1 and %d for %s", most, r.SKU)
	case ttl < 0 || l.MaxTTL > 0 && ttl > l.MaxTTL:
		return Allocation{}, errs.Invalid("ttl_seconds", "must be between 1 and %d", int64(l.MaxTTL/time.Second))
	}
	mounts, err := s.MountKeys.AdmitMounts(r.Caller, "mounts", r.Mounts)
	if err != nil {
		return Allocation{}, err
	}
	uid, err := s.uids.Next(ctx, s.DB)
	if err != nil {
		return Allocation{}, err
	}
	now := s.Clock.Now().Truncate(time.Microsecond) // in the precision of the database
	a := Allocation{
		ID: ids.New[ids.Allocation](), Tenant: r.Caller.Tenant, Project: r.Caller.Project, User: ids.User{UUID: r.Caller.Principal()},
		Name: r.Name, SKU: r.SKU, Region: r.Region, GPUs: r.GPUs, PriceMinor: offer.PriceMinor, Currency: offer.Currency,
		Login: fmt.Sprintf("u%d", uid), HostUID: uid, State: Requested, Labels: r.Labels, Mounts: mounts,
		CorrelationID: r.Caller.CorrelationID, Trace: r.Caller.Trace, Version: 1, CreatedAt: now, StatusAt: now, UpdatedAt: now,
	}
	if a.Name == "" {
		a.Name = fmt.Sprintf("%s-%d", r.SKU, uid)
	}
	if ttl > 0 {
		end := now.Add(ttl)
		a.ExpiresAt = &end
	}
	return a, nil
}

func (s *Service) declare(a Allocation, chosen slots.Placement, keys []string, follow bool) (desired.Object, error) {
	spec := desired.Allocation{
		Tenant: a.Tenant.String(), Project: a.Project.String(), User: a.User.String(), SKU: a.SKU, GPUs: a.GPUs,
		Node: chosen.Node.String(), GPUUUIDs: chosen.GPUs, Login: a.Login, UID: a.HostUID, Keys: keys, FollowKeys: follow, ExpireAt: a.ExpiresAt, Mounts: a.Mounts, MountEndpoint: s.MountKeys.Endpoint(a.Mounts),
	}
	for _, id := range chosen.IDs {
		spec.Slots = append(spec.Slots, id.String())
	}
	if spec.Keys == nil {
		spec.Keys = []string{}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return desired.Object{}, fmt.Errorf("encoding desired object: %w", err)
	}
	return desired.Object{
		Kind: desired.KindAllocation, Scope: a.Project.String(), Name: a.Name, UID: ids.Object{UUID: a.ID.UUID},
		Labels: a.Labels, Spec: text, Source: desired.Source{Owner: desired.OwnerAPI},
	}, nil
}
