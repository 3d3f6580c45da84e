package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// A1 makes this many allocations in each run, over this many connections.
const (
	Connections = 16
)

// Throughput says pairs as operations a second, ours being a.
func Throughput(p pairs, n int, id, path string) Row {
	r := pairs{a: p.B, B: p.a}.Row(id, path, n)
	r.Unit, r.Ours, r.Peer = "/s", float64(n)/Median(p.a), float64(n)/Median(p.B)
	all := float64(n * len(p.a))
	r.CPUOurs, r.CPUPeer = p.cpuA/all, p.CpuB/all
	return r
}

// Poll is between two looks whether something has come up.
const Poll = 5 * time.Millisecond

// Outcome is what a part of the bench answers a command with.
type Outcome struct {
	Took time.Duration `json:"took,omitempty"`
	At   int64         `json:"at,omitempty"` // nanoseconds of the wall clock, the same in all processes
	KiB  float64       `json:"kib,omitempty"`
	CPU  float64       `json:"cpu,omitempty"`
	Text string        `json:"text,omitempty"`
	Err  string        `json:"err,omitempty"`
}

// Build makes a binary as it ships.
func (l *Lab) Build(ctx context.Context, path, pkg string) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("finding the module: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "nomsgpack", "-ldflags", "-s -w", "-o", path, pkg) //nolint:gosec // our own path
	cmd.Dir = strings.TrimSpace(string(root))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", pkg, err, out)
	}
	return nil
}

// Connections of each role, as the server has them.
const (
	ApiConns, NodeConns, LoopConns, WorkConns = 16, 10, 4, 16
)

// OpenAs connects as the server does in one of its roles.
func OpenAs(ctx context.Context, url, role string, size int32) (*pgxpool.Pool, error) {
	return pg.OpenAs(ctx, url, "gpuaas_"+role, "gpuaas-"+role, size)
}

// LeastPairs is how many pairs a ratio is made of.
const LeastPairs = 5

// Without leaves out the statements in which one of the texts stands.
func (s Script) Without(texts ...string) Script {
	return slices.DeleteFunc(slices.Clone(s), func(one statement) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(one.Sql, text) })
	})
}

// OpenPolicies let everybody through, as often as they may be set to.
func OpenPolicies() []string {
	statements := []string{`UPDATE policy_revision SET revision = revision + 1`}
	for key, most := range map[string]int{
		"allocation.max_concurrent_per_user": 1000, "allocation.max_concurrent_per_project": 10_000, "allocation.max_concurrent_per_tenant": 100_000,
		"billing.hourly_spend_limit_minor": 1_000_000_000,
		"ratelimit.user_per_minute":        mostPerMinute, "ratelimit.tenant_per_minute": mostPerMinute, "ratelimit.mutation_per_minute": mostPerMinute, "ratelimit.burst": mostPerMinute,
	} {
		statements = append(statements, fmt.Sprintf(`INSERT INTO policy_values (key, scope, value, revision) SELECT '%s', 'platform', '%d', revision FROM policy_revision`, key, most))
	}
	return statements
}

// LargeFleet is the number of nodes of R1, R2 and A4.
const LargeFleet = 1_000_000

// SlopePairs: a pass takes tens of milliseconds, so more pairs cost nothing and
// steady the median.
const SlopePairs = 31

// Limits are the defaults of the policies.
func Limits() reconciler.Limits {
	return reconciler.Limits{
		Limits: plan.Limits{
			ProvisionDeadline: 15 * time.Minute, ReleaseDeadline: 15 * time.Minute, ProvisionAttempts: 3, ReleaseAttempts: 5,
			AskAgain: 10 * time.Second,
		},
		Enabled: true, SweepEvery: 5 * time.Minute, MassReleases: 10,
	}
}

// Settle waits until what was started has opened its connections and prepared its
// statements.
func Settle(ctx context.Context, l *Lab) {
	d := 3 * time.Second
	if l.Smoke {
		d /= 10
	}
	Wait(ctx, d)
}

func Wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// CollectAt is how the server has it.
const CollectAt = 300

const (
	// patience ends a measurement that would wait for ever.
	Patience = 30 * time.Second
)

// AllocationOf reads whom a task is about, as an agent does after it has verified
// the signature.
func AllocationOf(t protocol.Signed) (ids.Allocation, error) {
	var e protocol.Envelope
	if err := json.Unmarshal(t.Body, &e); err != nil {
		return ids.Allocation{}, fmt.Errorf("reading an envelope: %w", err)
	}
	return e.Allocation, nil
}

// Stalls are the numbers of the marketplace of A1. Tenants are many, because
// requests of one tenant wait for each other, on both sides.
var Stalls = Market{Tenants: 256, Nodes: 64, SlotsPerNode: 128}

// Captured begins the idempotency keys of the creates that are written down.
const Captured = "captured"
