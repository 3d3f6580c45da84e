package observed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
)

// AllocationState is the observed state of an allocation that the control loop reads.
type AllocationState struct {
	ID          ids.Allocation
	Node        ids.Node
	Phase       protocol.Phase
	Fence       int64
	SpecHash    string
	Message     string
	Proven      bool // gone, and the leftover scan of the node found nothing
	Complete    bool
	StaleAt     time.Time
	Failures    int
	FailedFence int64
}

// Applied is the spec that a package has applied.
type Applied struct {
	UID        uuid.UUID
	Generation int64
	Epoch      int64
	SpecHash   string
	Gone       bool
	ApplyFailures
}

// ApplyFailures counts the consecutive failures to apply one generation and epoch.
type ApplyFailures struct {
	Failures                      int
	FailedGeneration, FailedEpoch int64
}

// Of returns the count if it is that of a generation and epoch.
func (f ApplyFailures) Of(generation, epoch int64) int {
	if f.FailedGeneration != generation || f.FailedEpoch != epoch {
		return 0
	}
	return f.Failures
}

// QueueReports reads the reports about exactly these allocations.
func QueueReports(b *pgx.Batch, keys []uuid.UUID, each func(AllocationState)) {
	b.Queue(selectObserved, keys).Query(func(rows pgx.Rows) error {
		var s AllocationState
		_, err := pgx.ForEachRow(rows, []any{
			&s.ID, &s.Node, &s.Phase, &s.Fence, &s.SpecHash, &s.Message, &s.Proven, &s.Complete,
			&s.StaleAt, &s.Failures, &s.FailedFence,
		}, func() error {
			each(s)
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading reports: %w", err)
		}
		return nil
	})
}

// QueueApplied reads the specs that packages have applied for exactly these desired objects.
func QueueApplied(b *pgx.Batch, keys []uuid.UUID, each func(Applied)) {
	b.Queue(selectApplied, keys).Query(func(rows pgx.Rows) error {
		var a Applied
		_, err := pgx.ForEachRow(rows, []any{&a.UID, &a.Generation, &a.Epoch, &a.SpecHash, &a.Gone, &a.Failures, &a.FailedGeneration, &a.FailedEpoch}, func() error {
			each(a)
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading applied specs: %w", err)
		}
		return nil
	})
}

// NodeReport is the part of a node's last report that the control loop reads.
type NodeReport struct {
	Node    uuid.UUID
	StaleAt time.Time
	Devices []Device // nil: the report was incomplete, or older than this column
}

// QueueNodeReports reads the last reports of exactly these nodes.
func QueueNodeReports(b *pgx.Batch, keys []uuid.UUID, each func(NodeReport)) {
	b.Queue(selectHeard, keys).Query(func(rows pgx.Rows) error {
		var h NodeReport
		_, err := pgx.ForEachRow(rows, []any{&h.Node, &h.StaleAt, &h.Devices}, func() error {
			each(h)
			h.Devices = nil
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading report ages: %w", err)
		}
		return nil
	})
}

// Node is a node's last report, for people.
type Node struct {
	ID         ids.Node
	Boot       int64
	Sequence   int64
	Complete   bool
	Missing    []string
	Agent      string
	Capability int
	Inventory  protocol.Inventory
	Foreign    []string
	ObservedAt time.Time
	StaleAt    time.Time
}

// Node reads a node's last report; not_found when it never reported.
func (s *Store) Node(ctx context.Context, id ids.Node) (Node, error) {
	rows, err := s.DB.Query(ctx, selectNode, id)
	if err != nil {
		return Node{}, fmt.Errorf("reading report of %s: %w", id, err)
	}
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Node])
	return n, notFound(err, "node %s has not reported yet", id)
}

// Allocation is the last reported state of one allocation, for display.
type Allocation struct {
	ID         ids.Allocation
	Node       ids.Node
	Phase      protocol.Phase
	Fence      int64
	Generation int64
	Step       string
	Message    string
	Proof      json.RawMessage
	Failures   int
	FailedCode string
	ObservedAt time.Time

	FailedFence int64 // whose tasks the failures are
	SpecHash    string
	Proven      bool // gone, and the leftover scan of the node found nothing
	Fresh       bool // its node's last report is whole and not stale

	// Boot is that of a report with the same content as the one at ObservedAt.
	Boot       int64
	Sequence   int64
	ReportedAt time.Time
	Age        time.Duration // of that report, by the database's clock
	// Origin is the signature of the node under its last report that changed something, or nil.
	Origin json.RawMessage
	// Capability is that of the node's agent; 0: it is not known.
	Capability int
	// Mounts are the states of its mounts.
	Mounts []protocol.MountReport
}

// NoRelay reports whether the agent of the node is too old to open connections to terminal servers.
func (a Allocation) NoRelay() bool {
	return 0 < a.Capability && a.Capability < protocol.RelayCapability
}

// Allocation reads the last report of an allocation. It returns not_found if no node has reported it.
func (s *Store) Allocation(ctx context.Context, id ids.Allocation) (Allocation, error) {
	return allocation(ctx, s.DB, id, selectNewest, id)
}

// AllocationIn reads the last report of its node inside tx, where a worker decides whether its task is
// still needed. A report that commits meanwhile makes the allocation due again.
func (s *Store) AllocationIn(ctx context.Context, tx pgx.Tx, id ids.Allocation, node ids.Node) (Allocation, error) {
	return allocation(ctx, tx, id, selectHeld, id, node)
}

// Capability returns the capability that a node's agent has reported. known is false for a node that
// never reported.
func (s *Store) Capability(ctx context.Context, tx pgx.Tx, id ids.Node) (capability int, known bool, err error) {
	err = tx.QueryRow(ctx, selectCapability, id).Scan(&capability)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	} else if err != nil {
		return 0, false, fmt.Errorf("reading what %s can do: %w", id, err)
	}
	return capability, true, nil
}

// IsStale reports whether a node's last report is stale, read in tx. known is false if the node never
// reported.
func (s *Store) IsStale(ctx context.Context, tx pgx.Tx, id ids.Node) (silent, known bool, err error) {
	err = tx.QueryRow(ctx, selectSilent, id).Scan(&silent)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("reading the age of the report of %s: %w", id, err)
	}
	return silent, true, nil
}

func allocation(ctx context.Context, q pg.Queryer, id ids.Allocation, sql string, args ...any) (Allocation, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return Allocation{}, fmt.Errorf("reading the report of %s: %w", id, err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Allocation])
	return a, notFound(err, "no node has reported allocation %s", id)
}

func notFound(err error, format string, args ...any) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return errs.New(errs.NotFound, format, args...)
	}
	return err
}
