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

// Connections is the number of connections of the load and of pgbench. Both sides of a pair use the
// same number.
const (
	Connections = 16
)

// Throughput reports the pairs as operations a second. Side a is ours.
func Throughput(p pairs, n int, id, path string) Row {
	r := pairs{a: p.B, B: p.a}.Row(id, path, n)
	r.Unit, r.Ours, r.Peer = "/s", float64(n)/Median(p.a), float64(n)/Median(p.B)
	all := float64(n * len(p.a))
	r.CPUOurs, r.CPUPeer = p.cpuA/all, p.CpuB/all
	return r
}

// Poll is the time between two checks whether a process is ready.
const Poll = 5 * time.Millisecond

// Outcome is the result of one command of a Part.
type Outcome struct {
	Took time.Duration `json:"took,omitempty"`
	At   int64         `json:"at,omitempty"` // wall clock in nanoseconds, which all processes share
	KiB  float64       `json:"kib,omitempty"`
	CPU  float64       `json:"cpu,omitempty"`
	Text string        `json:"text,omitempty"`
	Err  string        `json:"err,omitempty"`
}

// Build builds a binary with the flags of a release.
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

// These are the connections of each role in the server.
const (
	ApiConns, NodeConns, LoopConns, WorkConns = 16, 10, 4, 16
)

// OpenAs connects to PostgreSQL as the server does in one of its roles.
func OpenAs(ctx context.Context, url, role string, size int32) (*pgxpool.Pool, error) {
	return pg.OpenAs(ctx, url, "gpuaas_"+role, "gpuaas-"+role, size)
}

// LeastPairs is the smallest number of pairs from which a ratio is calculated.
const LeastPairs = 5

// Without returns the script without the statements that contain one of the texts.
func (s Script) Without(texts ...string) Script {
	return slices.DeleteFunc(slices.Clone(s), func(one statement) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(one.Sql, text) })
	})
}

// OpenPolicies returns the statements that set the limits to the largest allowed values, so that no
// limit rejects a request of the bench.
func OpenPolicies() []string {
	statements := []string{`UPDATE policy_revision SET revision = revision + 1`}
	for key, most := range map[string]int{
		"allocation.max_concurrent_per_user": 1000, "allocation.max_concurrent_per_project": 10_000, "allocation.max_concurrent_per_tenant": 100_000,
		"billing.hourly_spend_limit_minor": 1_000_000_000, "auth.step_up_minutes": 0,
		"ratelimit.user_per_minute": mostPerMinute, "ratelimit.tenant_per_minute": mostPerMinute, "ratelimit.mutation_per_minute": mostPerMinute, "ratelimit.burst": mostPerMinute,
	} {
		statements = append(statements, fmt.Sprintf(`INSERT INTO policy_values (key, scope, subject, value, revision) SELECT '%s', 'platform', 'platform', '%d', revision FROM policy_revision`, key, most))
	}
	return statements
}

// LargeFleet is the number of nodes of R1, R2 and A4.
const LargeFleet = 1_000_000

// SlopePairs is the number of pairs for a slope. A pass lasts tens of milliseconds, so many pairs
// cost little time and make the median stable.
const SlopePairs = 31

// Limits returns the default values of the policies.
func Limits() reconciler.Limits {
	return reconciler.Limits{
		Limits: plan.Limits{
			Deadlines: plan.Deadlines{Provision: 15 * time.Minute, Release: 15 * time.Minute}, ProvisionAttempts: 3, ReleaseAttempts: 5,
			RetryAfter: 10 * time.Second,
		},
		Enabled: true, SweepEvery: 5 * time.Minute, MassReleases: 10,
	}
}

// Rest waits until the started processes have opened their connections and prepared their
// statements.
func Rest(ctx context.Context, l *Lab) {
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

// CollectAt is the GOGC percentage of the server.
const CollectAt = 300

const (
	// Patience is the time limit of a measurement that would otherwise wait forever.
	Patience = 30 * time.Second
)

// AllocationOf returns the allocation of a task. It does not verify the signature, because the
// caller is a simulated agent of the bench.
func AllocationOf(t protocol.Signed) (ids.Allocation, error) {
	var e protocol.Envelope
	if err := json.Unmarshal(t.Body, &e); err != nil {
		return ids.Allocation{}, fmt.Errorf("reading an envelope: %w", err)
	}
	return e.Allocation, nil
}

// Stalls is the marketplace of A1. It has many tenants, because requests of one tenant wait for
// each other on both sides.
var Stalls = Market{Tenants: 256, Nodes: 64, SlotsPerNode: 128}

// Captured is the prefix of the idempotency keys of the creates whose statements are recorded.
const Captured = "captured"
