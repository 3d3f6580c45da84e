package restore

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
)

// Node is a node that should report before a restore is confirmed.
type Node struct {
	ID         ids.Node   `json:"node_id"`
	Name       string     `json:"name"`
	ReportedAt *time.Time `json:"reported_at"` // null: no complete report since the restore began
}

// The kinds of differences.
const (
	UnknownAllocation  = "unknown_allocation"  // a node runs it, and the database does not know it there
	NewerFence         = "newer_fence"         // the node has executed a later decision than the database knows
	ReleasedOnNode     = "released_on_node"    // the node has released it by a later decision, and the database has it as active
	MissingOnNode      = "missing_on_node"     // active in the database, and the node does not report it
	UnknownCertificate = "unknown_certificate" // a node presents it, and the database does not know it
)

// Difference is one difference between the database and the report of a node.
type Difference struct {
	Kind       string     `json:"kind"`
	NodeID     ids.Node   `json:"node_id"`
	Node       string     `json:"node"`
	Allocation *uuid.UUID `json:"allocation_id"`
	Status     string     `json:"status,omitempty"` // in the database
	// Phase is the phase that the node reports, or the serial of a certificate.
	Phase       string `json:"reported,omitempty"`
	Fence       int64  `json:"reported_fence,omitempty"`
	StoredFence int64  `json:"stored_fence,omitempty"`
}

// Nodes lists the nodes that should report. Only the owner of the schema may.
func Nodes(ctx context.Context, q pg.Queryer) ([]Node, error) {
	return pg.List(ctx, q, "the nodes that should report", selectNodes, pgx.RowToStructByPos[Node])
}

// Differences compares the reports with the database. Only the owner of the schema may.
func Differences(ctx context.Context, q pg.Queryer) ([]Difference, error) {
	return pg.List(ctx, q, "the differences", selectDifferences, pgx.RowToStructByPos[Difference])
}

// Lock excludes other confirmations and reports of nodes until tx ends.
func Lock(ctx context.Context, tx pgx.Tx) error {
	for _, sql := range []string{lockRestores, lockReports} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("locking the restore: %w", err)
		}
	}
	return nil
}

// QueueUnknown stores that a node runs an allocation that the database does not know. Reports of the node with it are accepted.
func QueueUnknown(b *pgx.Batch, restore uuid.UUID, d Difference) {
	b.Queue(insertUnknown, d.Allocation, d.NodeID, restore, d.Fence)
}

// QueueConfirm confirms the restores in progress.
func QueueConfirm(b *pgx.Batch, by string, report []byte) { b.Queue(confirmOpen, by, report) }

// record stores what a node reports about its allocations.
func record(ctx context.Context, q pg.Queryer, node ids.Node, r protocol.Report) error {
	allocations := r.Allocations
	if allocations == nil {
		allocations = []protocol.AllocationReport{}
	}
	if _, err := q.Exec(ctx, putReport, node, r.Complete, allocations); err != nil {
		return fmt.Errorf("storing the report of %s after the restore: %w", node, err)
	}
	return nil
}
