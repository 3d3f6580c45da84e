// Package allocationtest builds fixtures for allocations: a tenant with money, an SKU, and nodes that
// have reported. The services themselves create all rows, on a database of the test's own.
package allocationtest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/devseed"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
	"github.com/gpuaas/gpuaas/protocol"
)

// SKU is the SKU of the fixture, at Price cents per GPU and hour.
const (
	SKU    = "h100"
	Region = "eu1"
	Price  = 250
)

// Fixture is one installation. Allocations is the server under test.
type Fixture struct {
	DB          *pgxpool.Pool
	Allocations *allocation.Service
	Inventory   *nodehealth.Service
	Desired     *desired.Store
	Catalog     *catalog.Service
	Ledger      *ledger.Service
	Hints       *hint.Bus
	MountKeys   *accesskey.Service // with data keys of the test
	Limits      allocation.Limits  // policy values; change them before a request
	Warning     time.Duration      // before the end of a TTL
	Warnings    map[ids.Tenant]time.Duration
	Isolation   string          // that the policies demand
	Caller      identity.Caller // of the tenant that has money
	Operator    identity.Caller // another person of it
}

// New makes a world whose tenant has a balance, and in which nothing is free yet.
func New(t testing.TB, balance money.Minor) *Fixture {
	t.Helper()
	db, hints := pgtest.Clone(t), &hint.Bus{}
	w := &Fixture{
		DB: db, Hints: hints, Desired: &desired.Store{DB: db, Hints: hints}, Catalog: &catalog.Service{DB: db, Hints: hints},
		Ledger: &ledger.Service{DB: db},
		Limits: allocation.Limits{PerUser: 1000, PerProject: 1000, PerTenant: 1000, MaxGPUs: 8, MinimumRunway: time.Hour},
	}
	w.MountKeys = &accesskey.Service{DB: db, MountSeal: sealer(t), MayMount: func(identity.Caller, bool) bool { return true }, MountURL: func() string { return "https://s3.example" }}
	w.Allocations = w.Server()
	w.Inventory = w.Allocations.Inventory
	w.Do(t, func(tx pgx.Tx) error {
		seed, err := devseed.Write(t.Context(), tx, nil)
		if err != nil {
			return err
		}
		w.Caller = identity.Caller{User: seed.Dev.ID, Tenant: seed.Tenant, Project: seed.Project, CorrelationID: "corr-1", SignIn: identity.SignIn{At: clock.Clock{}.Now()}}
		w.Operator = identity.Caller{User: seed.Operator.ID, Tenant: seed.Tenant, Project: seed.Project, CorrelationID: "corr-2"}
		if _, err := w.Ledger.EnsureAccounts(t.Context(), tx, seed.Tenant, "EUR"); err != nil {
			return err
		}
		if balance > 0 {
			if err := w.Ledger.TestCredit(t.Context(), tx, seed.Tenant, balance, "world"); err != nil {
				return err
			}
		}
		return w.Catalog.Declare(t.Context(), tx, ids.New[ids.Object](), SKU, json.RawMessage(fmt.Appendf(nil, `{"displayName": "H100", "gpuModel": "NVIDIA H100 80GB HBM3",
			"memoryGiB": 80, "isolation": "host_user", "maxGPUs": 8, "active": true, "price": {"currency": "EUR", "amountMinor": %d}}`, Price)))
	})
	return w
}

// Server returns one more server on the same database. It has its own cache of free slots and does not
// see the placements of the others.
func (w *Fixture) Server() *allocation.Service {
	return &allocation.Service{
		DB: w.DB, Desired: w.Desired, Inventory: nodehealth.New(w.DB, w.Hints), Catalog: w.Catalog,
		Identity: &identity.Service{DB: w.DB}, Metering: &metering.Service{DB: w.DB}, MountKeys: w.MountKeys, Limits: func(identity.Caller) allocation.Limits { return w.Limits },
		Isolation: func(string) string { return w.Isolation }, ExpiryWarnings: func() (time.Duration, map[ids.Tenant]time.Duration) { return w.Warning, w.Warnings }, Naming: ids.DefaultNaming, Hints: w.Hints,
	}
}

type mountSealer struct{ *envelope.Ring }

func (r mountSealer) Open(_ context.Context, sealed []byte, at envelope.Place) ([]byte, error) {
	return r.Ring.Open(sealed, at)
}

func sealer(t testing.TB) identity.Sealer {
	t.Helper()
	r, err := envelope.NewRing(map[string][]byte{"mounts": make([]byte, 32)}, "mounts")
	if err != nil {
		t.Fatal(err)
	}
	return mountSealer{r}
}

// Do commits what do does.
func (w *Fixture) Do(t testing.TB, do func(pgx.Tx) error) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), w.DB, do); err != nil {
		t.Fatal(err)
	}
}

// Node declares a node and has it report n healthy GPUs.
func (w *Fixture) Node(t testing.TB, name string, n int) ids.Node {
	t.Helper()
	node := ids.New[ids.Node]()
	w.Do(t, func(tx pgx.Tx) error {
		spec, err := json.Marshal(desired.Node{SKU: SKU, Region: Region, Onboarding: "simulated", GPUs: n})
		if err != nil {
			return fmt.Errorf("encoding the spec of %s: %w", name, err)
		}
		if err := w.Inventory.Declare(t.Context(), tx, node, name, spec); err != nil {
			return err
		}
		return w.Inventory.ApplyReport(t.Context(), tx, node, Report(node, n))
	})
	return node
}

// Report returns the report of a healthy node.
func Report(node ids.Node, n int) protocol.Report {
	r := protocol.Report{Capability: protocol.Capability, Agent: "1.0.0", BootID: "b", Boot: 1, Sequence: 1, Complete: true, Allocations: []protocol.AllocationReport{}}
	for i := range n {
		r.Inventory.GPUs = append(r.Inventory.GPUs, protocol.GPU{Index: i, UUID: GPU(node, i), Model: "NVIDIA H100 80GB HBM3", MemoryMiB: 81559, Health: protocol.Healthy})
	}
	return r
}

// GPU is the UUID of a node's device.
func GPU(node ids.Node, i int) string {
	text := node.String()
	return fmt.Sprintf("GPU-%s-%04x%s", text[28:], i, text[13:])
}

// Request requests n GPUs and expects success.
func (w *Fixture) Request(t testing.TB, n int) allocation.Allocation {
	t.Helper()
	a, err := w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: SKU, GPUs: n})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Move applies a trigger to a locked allocation, and returns the allocation afterwards.
func (w *Fixture) Move(t testing.TB, id ids.Allocation, event func(pgx.Tx, allocation.Allocation) error) allocation.Allocation {
	t.Helper()
	var a allocation.Allocation
	w.Do(t, func(tx pgx.Tx) (err error) {
		if a, err = w.Allocations.Lock(t.Context(), tx, id); err != nil {
			return err
		}
		if err := event(tx, a); err != nil {
			return err
		}
		a, err = w.Allocations.Lock(t.Context(), tx, id)
		return err
	})
	return a
}

// Active requests n GPUs and reports them ready.
func (w *Fixture) Active(t testing.TB, n int) allocation.Allocation {
	t.Helper()
	return w.Move(t, w.Request(t, n).ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.NodeReady(t.Context(), tx, a, metering.Observation{Node: a.Node, Fence: 1, Generation: 1})
	})
}

// Releasing has it released by the caller, too.
func (w *Fixture) Releasing(t testing.TB, n int) allocation.Allocation {
	t.Helper()
	a, err := w.Allocations.Release(t.Context(), w.Caller, identity.Key{}, w.Active(t, n).ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Declared is an allocation's declaration.
func (w *Fixture) Declared(t testing.TB, id ids.Allocation) (o desired.Object) {
	t.Helper()
	w.Do(t, func(tx pgx.Tx) (err error) {
		o, err = w.Desired.LockUID(t.Context(), tx, desired.KindAllocation, ids.Object(id))
		return err
	})
	return o
}

// Proof returns a node's proof that every device of the fixture is clean.
func Proof(fence int64, gpus ...string) protocol.Proof {
	return protocol.Proof{Fence: fence, Checks: []string{"no_account"}, Leftovers: []string{}, Scrubbed: gpus}
}
