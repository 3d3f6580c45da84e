// Package observed owns what was last seen: the reports of nodes, their age and
// completeness, and what rooms have carried out. It believes a report only as
// far as its order allows, and decides nothing.
package observed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// Store keeps reports.
type Store struct {
	DB pg.Pool
	// Leases, where there are any, vouch for the nodes that are heard here.
	Leases *Leases
}

// Report takes a node's report and marks what it changed as due. It says whether
// the content differs from the last one: most do not, and cost one row. A report
// that is not newer than the last is refused as stale_report.
func (s *Store) Report(ctx context.Context, tx pgx.Tx, node ids.Node, r protocol.Report, staleAfter time.Duration) (changed bool, err error) {
	hash, err := contentHash(r)
	if err != nil {
		return false, err
	}
	devices, err := devicesOf(r)
	if err != nil {
		return false, err
	}
	lease := s.Leases.begin(node)
	var before, after string
	var blind, others bool
	err = tx.QueryRow(ctx, putReport, node, r.Boot, r.BootID, r.Sequence, r.Complete, strs(r.Missing), r.Agent, r.Capability,
		r.Inventory, hash, strs(r.Foreign), staleAfter, devices, lease).Scan(&before, &after, &blind, &others)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, errs.New(errs.StaleReport, "boot %d sequence %d is not newer than the last report", r.Boot, r.Sequence)
	case err != nil:
		return false, fmt.Errorf("storing report of %s: %w", node, err)
	}
	if blind {
		// Nobody knew how the node was: what waited for it may move now.
		if _, err := tx.Exec(ctx, wakeNode, node); err != nil {
			return false, fmt.Errorf("waking what waits for %s: %w", node, err)
		}
	}
	if before == after {
		return false, nil
	}
	if others && !blind {
		if _, err := tx.Exec(ctx, markNode, node); err != nil {
			return false, fmt.Errorf("marking %s: %w", node, err)
		}
	}
	return true, putAllocations(ctx, tx, node, r)
}

func putAllocations(ctx context.Context, tx pgx.Tx, node ids.Node, r protocol.Report) error {
	type row struct {
		protocol.AllocationReport

		Proof json.RawMessage `json:"proof"`
	}
	rows := make([]row, len(r.Allocations))
	seen := make([]uuid.UUID, len(r.Allocations))
	for i, a := range r.Allocations {
		rows[i], seen[i] = row{AllocationReport: a}, a.Allocation.UUID
		if a.Proof != nil {
			text, err := json.Marshal(a.Proof)
			if err != nil {
				return fmt.Errorf("encoding proof: %w", err)
			}
			rows[i].Proof = text
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("encoding report: %w", err)
	}
	if _, err := tx.Exec(ctx, putSeen, node, text); err != nil {
		return fmt.Errorf("storing what %s holds: %w", node, err)
	}
	if !r.Complete {
		return nil // half a report proves no absence
	}
	if _, err := tx.Exec(ctx, forget, node, seen); err != nil {
		return fmt.Errorf("storing what %s no longer holds: %w", node, err)
	}
	return nil
}

// Device is what tells one GPU of a report from another, to whoever compares them
// with what was declared.
type Device struct {
	Model  string `json:"model"`
	Serial string `json:"serial"`
}

func devicesOf(r protocol.Report) ([]byte, error) {
	list := make([]Device, len(r.Inventory.GPUs))
	for i, g := range r.Inventory.GPUs {
		list[i] = Device{g.Model, g.Serial}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("encoding devices: %w", err)
	}
	return text, nil
}

// contentHash leaves out what every report changes: counters and readings that
// no decision rests on.
func contentHash(r protocol.Report) (string, error) {
	sum, err := digestOf(r)
	return hex.EncodeToString(sum[:]), err
}

func digestOf(r protocol.Report) ([sha256.Size]byte, error) {
	r.Sequence = 0
	r.Inventory.GPUs = append([]protocol.GPU(nil), r.Inventory.GPUs...)
	for i := range r.Inventory.GPUs {
		g := &r.Inventory.GPUs[i]
		g.PowerMW, g.Celsius, g.UsedMiB, g.Utilisation = 0, 0, 0, 0
	}
	text, err := json.Marshal(r)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("encoding report: %w", err)
	}
	return sha256.Sum256(text), nil
}

// Failed counts a task that did not succeed, so that the next plan sees it. A task
// that the node refuses as replayed is noted and not counted: the node has tried
// nothing. A host that has just started refuses all that was signed before, also
// within the second of its start, and would use up all attempts by that.
func (s *Store) Failed(ctx context.Context, tx pgx.Tx, node ids.Node, r protocol.Result) error {
	counted := 1
	if r.Code == protocol.Replayed {
		counted = 0
	}
	if _, err := tx.Exec(ctx, countFailure, r.Allocation, node, r.Fence, r.Generation, string(r.Code), r.Message, counted); err != nil {
		return fmt.Errorf("counting a failed task of %s: %w", r.Allocation, err)
	}
	return nil
}

// Applied records that a room has carried out a declaration, in the room's own
// transaction.
func (s *Store) Applied(ctx context.Context, tx pgx.Tx, kind string, a Applied) error {
	if _, err := tx.Exec(ctx, putApplied, a.UID, kind, a.Generation, a.SpecHash, a.Gone, a.Epoch); err != nil {
		return fmt.Errorf("recording %s %s as carried out: %w", kind, a.UID, err)
	}
	return nil
}

func strs(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
