package allocation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

const rich = 1_000_000

// A request writes exactly these rows, in one commit. Any other row is an unintended write.
func TestRequestWritesThis(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 2)

	diff := pgtest.Diff(t, w.DB, pgtest.MaskIDs(), pgtest.MaskTimes(), pgtest.Mask("xid", "seq", "spec_hash", "period", "spec", "body_hash"))
	_, err := w.Allocations.Request(t.Context(), allocation.Request{
		Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 2, Name: "train", Labels: map[string]string{"team": "a"}, TTL: time.Hour,
		Key:    identity.Key{Principal: w.Caller.Principal(), Method: "POST", Route: "/allocations", Key: "k1"},
		Answer: func(a allocation.Allocation) identity.Reply { return identity.Reply{Status: 201, Body: []byte(a.Name)} },
	})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/request.diff", diff())
}

// INV-01: 64 claimers through two servers with different caches. No slot gets two claims, no claimer
// gets half, none deadlocks, and each one without a slot receives an error.
func TestINV01OneHolder(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	for i := range 4 {
		w.Node(t, fmt.Sprintf("node-%d", i), 4)
	}
	servers, callers := []*allocation.Service{w.Allocations, w.Server()}, tenants(t, w, 16)
	won, failures := everyone(64, func(i int) error {
		_, err := servers[i%2].Request(t.Context(), allocation.Request{Caller: callers[i%16], SKU: allocationtest.SKU, GPUs: 1 + i%3})
		return err
	})
	for code, n := range failures {
		if code != errs.SKUUnavailable {
			t.Errorf("%d requests ended as %s", n, code)
		}
	}
	var slots, holders, claims, promised, free int
	must(t, w.DB.QueryRow(t.Context(), `
		SELECT count(DISTINCT slot_id), count(DISTINCT allocation_id), count(*), (SELECT sum(gpus) FROM allocations),
			(SELECT count(*) FROM slots WHERE status = 'clean')
		FROM slot_claims`).Scan(&slots, &holders, &claims, &promised, &free))
	if slots != claims || holders != won || claims != promised || claims+free != 16 {
		t.Errorf("%d requests won: %d claims on %d slots by %d holders, %d promised, %d free", won, claims, slots, holders, promised, free)
	}
}

// A request without a region reads the free slots of all regions again after each failed claim. The region of the node
// that it failed to get is not a wish of the tenant.
func TestRepeatedPlacementReadsAgain(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 8)
	other := w.Server()
	for _, region := range []string{"", allocationtest.Region} {
		chosen, err := other.Inventory.Place(t.Context(), allocation.Allocation{SKU: allocationtest.SKU, Region: region, GPUs: 1}.Wanted(), time.Now())
		must(t, err)
		other.Inventory.Finished(chosen)
	}
	_, err := w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 7})
	must(t, err)
	if _, err := other.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1}); err != nil {
		t.Errorf("the last free slot: %v", err)
	}
}

// INV-02: claims on the same slots in different sequences wait for each other and never deadlock.
func TestINV02WholeNodesWithoutDeadlock(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 8)
	callers := tenants(t, w, 32)
	won, failures := everyone(32, func(i int) error {
		_, err := w.Server().Request(t.Context(), allocation.Request{Caller: callers[i], SKU: allocationtest.SKU, GPUs: 8})
		return err
	})
	if won != 1 || failures[errs.SKUUnavailable] != 31 {
		t.Errorf("%d won, the others %v", won, failures)
	}
}

// INV-06: one key, one effect. Concurrent requests with the key get "in flight"; a request with another
// body gets a conflict. A rejected request stores no response: a response stored in another transaction
// would report an allocation that never existed.
func TestINV06RejectedRequestLeavesNoKey(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 8)
	key := identity.Key{Principal: w.Caller.Principal(), Method: "POST", Route: "/allocations", Key: "k", BodyHash: [32]byte{1}}
	request := func(k identity.Key) error {
		_, err := w.Allocations.Request(t.Context(), allocation.Request{
			Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, Name: "exists", Key: k,
			Answer: func(a allocation.Allocation) identity.Reply {
				return identity.Reply{Status: 201, Body: []byte(a.ID.String())}
			},
		})
		return err
	}
	if err := request(identity.Key{}); err != nil {
		t.Fatal(err)
	}
	if err := request(key); errs.CodeOf(err) != errs.AlreadyExists {
		t.Fatalf("the name exists: %v", err)
	}
	if _, found, err := w.Allocations.Identity.Replay(t.Context(), key); found || err != nil {
		t.Errorf("a rejected request is replayed as done (%v)", err)
	}
}

func TestINV06OneEffectPerKey(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 8)
	key := identity.Key{Principal: w.Caller.Principal(), Method: "POST", Route: "/allocations", Key: "k", BodyHash: [32]byte{1}}
	request := func(_ int) error {
		_, err := w.Allocations.Request(t.Context(), allocation.Request{
			Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, Key: key,
			Answer: func(a allocation.Allocation) identity.Reply {
				return identity.Reply{Status: 201, Body: []byte(a.ID.String())}
			},
		})
		return err
	}
	won, failures := everyone(32, request)
	if won != 1 || failures[errs.IdempotencyInFlight] != 31 {
		t.Errorf("%d won, the others %v", won, failures)
	}
	first, found, err := w.Allocations.Identity.Replay(t.Context(), key)
	if err != nil || !found || first.Status != 201 {
		t.Fatalf("replayed %+v %v %v", first, found, err)
	}
	if id := queryOne[string](t, w, `SELECT id::text FROM allocations`); id != string(first.Body) {
		t.Errorf("the replay names %s, the row is %s", first.Body, id)
	}
	key.BodyHash = [32]byte{2}
	if _, _, err := w.Allocations.Identity.Replay(t.Context(), key); errs.CodeOf(err) != errs.IdempotencyKeyReused {
		t.Errorf("another body: %v", err)
	}
	if errs.CodeOf(request(0)) != errs.IdempotencyInFlight || queryOne[int](t, w, `SELECT count(*)::int FROM allocations`) != 1 {
		t.Error("another body under the same key had an effect")
	}
}

// INV-07: at one below a cap, 100 at once make one. The balance is such a cap.
func TestINV07Caps(t *testing.T) {
	t.Parallel()
	const limit = 3
	for name, c := range map[string]struct {
		cap func(*allocation.Limits)
	}{
		"user":    {func(l *allocation.Limits) { l.PerUser = limit }},
		"project": {func(l *allocation.Limits) { l.PerProject = limit }},
		"tenant":  {func(l *allocation.Limits) { l.PerTenant = limit }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := allocationtest.New(t, rich)
			for i := range 7 {
				w.Node(t, fmt.Sprintf("node-%d", i), 16)
			}
			for range limit - 1 {
				w.Request(t, 1)
			}
			c.cap(&w.Limits)
			servers := []*allocation.Service{w.Allocations, w.Server()}
			won, failures := everyone(100, func(i int) error {
				_, err := servers[i%2].Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1})
				return err
			})
			if won != 1 || failures[errs.ConcurrencyLimitReached] != 99 {
				t.Errorf("%d won, the others %v", won, failures)
			}
		})
	}
}

// INV-79: a tenant makes its releases fail and creates again. An allocation whose release failed occupies
// its slot, so it counts in every cap.
func TestINV79AFailedReleaseCountsInTheCaps(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*allocation.Limits){
		"user":    func(l *allocation.Limits) { l.PerUser = 1 },
		"project": func(l *allocation.Limits) { l.PerProject = 1 },
		"tenant":  func(l *allocation.Limits) { l.PerTenant = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := allocationtest.New(t, rich)
			w.Node(t, "node-1", 4)
			limit(&w.Limits)
			w.Request(t, 1)
			if _, err := w.DB.Exec(t.Context(), `ALTER TABLE allocations DISABLE TRIGGER USER; UPDATE allocations SET status = 'release_failed'`); err != nil {
				t.Fatal(err)
			}
			_, err := w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1})
			if errs.CodeOf(err) != errs.ConcurrencyLimitReached {
				t.Error(err)
			}
			if held, err := w.Allocations.Holdings(t.Context(), w.DB); err != nil || len(held) != 1 || held[0].Count != 1 {
				t.Errorf("a preview of the caps counts %v, %v", held, err)
			}
		})
	}
}

// A rejected request leaves nothing and names the field.
func TestRejectedRequests(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 4)
	w.Limits.MaxTTL = time.Hour
	if _, err := w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, Name: "exists"}); err != nil {
		t.Fatal(err)
	}
	diff := pgtest.Diff(t, w.DB)
	for name, c := range map[string]struct {
		r     allocation.Request
		code  errs.Code
		field string
	}{
		"no GPU":         {allocation.Request{SKU: allocationtest.SKU}, errs.ValidationError, "gpus"},
		"too many":       {allocation.Request{SKU: allocationtest.SKU, GPUs: 9}, errs.ValidationError, "gpus"},
		"too long":       {allocation.Request{SKU: allocationtest.SKU, GPUs: 1, TTL: 2 * time.Hour}, errs.ValidationError, "ttl_seconds"},
		"negative":       {allocation.Request{SKU: allocationtest.SKU, GPUs: 1, TTL: -1}, errs.ValidationError, "ttl_seconds"},
		"unknown SKU":    {allocation.Request{SKU: "b300", GPUs: 1}, errs.SKUUnknown, "sku"},
		"no free slots":  {allocation.Request{SKU: allocationtest.SKU, GPUs: 4}, errs.SKUUnavailable, ""},
		"another region": {allocation.Request{SKU: allocationtest.SKU, GPUs: 1, Region: "us1"}, errs.SKUUnavailable, ""},
		"name exists":    {allocation.Request{SKU: allocationtest.SKU, GPUs: 1, Name: "exists"}, errs.AlreadyExists, "name"},
	} {
		c.r.Caller = w.Caller
		_, err := w.Allocations.Request(t.Context(), c.r)
		var coded *errs.Error
		if !errors.As(err, &coded) || coded.Code != c.code || coded.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left := diff(); left != "" {
		t.Errorf("refusals left\n%s", left)
	}
}

// A name is reserved as long as its allocation is live, and no longer: not by a failed one that is still
// being cleaned up.
func TestNameIsFreeAfterFailure(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 2)
	request := func() (allocation.Allocation, error) {
		return w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, Name: "train"})
	}
	first, err := request()
	if err != nil {
		t.Fatal(err)
	}
	w.Move(t, first.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.Exhaust(t.Context(), tx, a, 3, "no key fits")
	})
	second, err := request()
	if err != nil {
		t.Fatalf("the name of a failed allocation: %v", err)
	}
	if a, b := w.Declared(t, first.ID), w.Declared(t, second.ID); a.DeletedAt == nil || b.DeletedAt != nil {
		t.Errorf("tombstone %v, successor %v", a.DeletedAt, b.DeletedAt)
	}
}

// The events agree with their contract and name the tenant and the allocation.
func TestEventsFollowTheirContract(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	node := w.Node(t, "node-1", 4)
	active := w.Active(t, 1)
	gone := w.Releasing(t, 1)
	fence := w.Declared(t, gone.ID).Fence
	w.Move(t, gone.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.SlotsGone(t.Context(), tx, a, allocationtest.Proof(fence, allocationtest.GPU(node, 1)))
	})
	giveUp := func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.Exhaust(t.Context(), tx, a, 3, "why")
	}
	w.Move(t, w.Request(t, 1).ID, giveUp)
	if _, err := w.Allocations.Release(t.Context(), w.Operator, identity.Key{}, active.ID, nil); err != nil {
		t.Fatal(err)
	}
	w.Move(t, active.ID, giveUp)
	w.Request(t, 1)
	w.Do(t, func(tx pgx.Tx) error {
		_, err := w.Allocations.Deplete(t.Context(), tx, w.Caller.Tenant)
		return err
	})

	contract, err := asyncapi.Load()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := w.DB.Query(t.Context(), `SELECT subject, payload, correlation_id, sequence FROM outbox_events WHERE stream <> 'FLEET' ORDER BY seq`)
	if err != nil {
		t.Fatal(err)
	}
	seen, subject, payload, correlation, sequence := map[string]int{}, "", []byte{}, "", int64(0)
	_, err = pgx.ForEachRow(rows, []any{&subject, &payload, &correlation, &sequence}, func() error {
		seen[subject]++
		if err := contract.Payload(subject, payload); err != nil {
			t.Errorf("%s: %v\n%s", subject, err, payload)
		}
		var about struct {
			URN    string `json:"urn"`
			Tenant string `json:"tenant_id"`
		}
		if json.Unmarshal(payload, &about) != nil || !strings.HasPrefix(about.URN, "core42:aicloud:eu1:"+w.Caller.Tenant.String()) || about.Tenant != w.Caller.Tenant.String() {
			t.Errorf("%s is about %+v", subject, about)
		}
		if correlation != "corr-1" && (correlation != "corr-2" || !strings.Contains(subject, "releas")) {
			t.Errorf("%s carries correlation %q", subject, correlation)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		allocation.SubjectRequested, allocation.SubjectActive, allocation.SubjectFailed, allocation.SubjectReleasing,
		allocation.SubjectReleased, allocation.SubjectReleaseFailed, allocation.SubjectForceRelease,
	} {
		if seen[s] == 0 {
			t.Errorf("no %s was stated", s)
		}
	}
	if n := queryOne[int](t, w, `SELECT count(*)::int FROM (SELECT 1 FROM outbox_events GROUP BY aggregate, sequence HAVING count(*) > 1) twice`); n > 0 {
		t.Errorf("%d positions of an aggregate are used twice", n)
	}
}

// tenants creates n more tenants with money, because requests of one tenant wait for each other before
// they reach the slots.
func tenants(t *testing.T, w *allocationtest.Fixture, n int) (callers []identity.Caller) {
	t.Helper()
	for i := range n {
		c := identity.Caller{User: ids.New[ids.User](), Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project]()}
		w.Do(t, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(`INSERT INTO tenants (id, name) VALUES ($1, $2)`, c.Tenant, fmt.Sprint("tenant-", i))
			b.Queue(`INSERT INTO projects (id, org_id, name) VALUES ($1, $2, 'p')`, c.Project, c.Tenant)
			b.Queue(`INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, $2, $2, $2, 'user')`, c.User, fmt.Sprint("user-", i))
			b.Queue(`INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, 'member')`, c.Tenant, c.User)
			if err := tx.SendBatch(t.Context(), b).Close(); err != nil {
				return err
			}
			if _, err := w.Ledger.EnsureAccounts(t.Context(), tx, c.Tenant, "EUR"); err != nil {
				return err
			}
			return w.Ledger.TestCredit(t.Context(), tx, c.Tenant, rich, fmt.Sprint("world-", i))
		})
		callers = append(callers, c)
	}
	return callers
}

// everyone runs n at once and counts how they end.
func everyone(n int, do func(i int) error) (won int, failures map[errs.Code]int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	failures = map[errs.Code]int{}
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			err := do(i)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
				return
			}
			code := errs.CodeOf(err)
			if sql, ok := errors.AsType[*pgconn.PgError](err); ok {
				code = errs.Code(sql.Code + " " + sql.Message)
			}
			failures[code]++
		})
	}
	close(start)
	all.Wait()
	return won, failures
}

func queryOne[T any](t *testing.T, w *allocationtest.Fixture, sql string, args ...any) (v T) {
	t.Helper()
	must(t, w.DB.QueryRow(context.WithoutCancel(t.Context()), sql, args...).Scan(&v))
	return v
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
