// Package observed owns the observed state: the reports of nodes, their age and completeness, and the
// specs that packages have applied. It accepts a report only if it is newer than the last one, and makes
// no decision.
package observed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
)

// Store stores reports.
type Store struct {
	DB pg.Pool
	// Leases covers the nodes that report to this process. It may be nil.
	Leases *Leases
	// Telemetry stores the readings of GPUs in use. It may be nil.
	Telemetry *Telemetry
}

// Report stores a node's report and marks the objects that it changed as due. It returns whether the
// content differs from the last report: most reports do not differ and cost one row. A report that is
// not newer than the last one is rejected with stale_report.
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
		r.Inventory, hash, strs(r.Foreign), staleAfter, devices, lease, r.Enrolment, r.Signed).Scan(&before, &after, &blind, &others)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, stale(ctx, tx, node, r)
	case err != nil:
		return false, fmt.Errorf("storing report of %s: %w", node, err)
	}
	if blind {
		// The node was stale until now, so objects that wait for it may continue.
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

// stale returns the error of a report that is not newer than the last one, with the boot of that one.
func stale(ctx context.Context, tx pgx.Tx, node ids.Node, r protocol.Report) error {
	var boot int64
	if err := tx.QueryRow(ctx, selectBoot, node).Scan(&boot); err != nil {
		return fmt.Errorf("reading the last boot of %s: %w", node, err)
	}
	return errs.New(errs.StaleReport, "boot %d sequence %d is not newer than the last report", r.Boot, r.Sequence).With("boot", boot)
}

// putAllocations stores the state of each reported allocation. Only a complete report proves that an
// allocation is absent. An incomplete one leaves the rows of unreported allocations unchanged,
// because they may be in the missing section. An unread allocation leaves its own row unchanged.
func putAllocations(ctx context.Context, tx pgx.Tx, node ids.Node, r protocol.Report) error {
	read, all, err := rowsOf(r)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(putObserved, node, read)
	b.Queue(markUnread, node, all)
	if r.Complete {
		seen := make([]uuid.UUID, len(r.Allocations))
		for i, a := range r.Allocations {
			seen[i] = a.Allocation.UUID
		}
		b.Queue(forget, node, seen)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("storing the allocations of %s: %w", node, err)
	}
	return nil
}

// rowsOf encodes the allocations of a report: those that were read, and all.
func rowsOf(r protocol.Report) (read, all []byte, err error) {
	type row struct {
		protocol.AllocationReport

		Proof json.RawMessage `json:"proof"`
	}
	rows, known := make([]row, len(r.Allocations)), []row{}
	for i, a := range r.Allocations {
		a.Mounts = bounded(a.Mounts)
		rows[i] = row{AllocationReport: a}
		if a.Proof != nil {
			if rows[i].Proof, err = json.Marshal(a.Proof); err != nil {
				return nil, nil, fmt.Errorf("encoding proof: %w", err)
			}
		}
		if a.Unread == "" {
			known = append(known, rows[i])
		}
	}
	if read, err = json.Marshal(known); err == nil {
		all, err = json.Marshal(rows)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("encoding report: %w", err)
	}
	return read, all, nil
}

// bounded limits what a node states about mounts: tenants read it.
func bounded(mounts []protocol.MountReport) []protocol.MountReport {
	list := slices.Clone(mounts[:min(len(mounts), protocol.MaxMounts)])
	for i := range list {
		list[i].Message = strings.ToValidUTF8(list[i].Message[:min(len(list[i].Message), maxMountMessage)], "")
	}
	return list
}

// maxMountMessage limits the text about one mount, in bytes.
const maxMountMessage = 256

// Device identifies a GPU in a report, so that it can be compared with the desired GPUs of the node.
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

func digestOf(r protocol.Report) (digest [sha256.Size]byte, err error) {
	r.Sequence, r.Nonce, r.Origin = 0, "", nil
	r.Inventory.GPUs = append([]protocol.GPU(nil), r.Inventory.GPUs...)
	for i := range r.Inventory.GPUs {
		g := &r.Inventory.GPUs[i]
		g.PowerMW, g.Celsius, g.UsedMiB, g.Utilisation = 0, 0, 0, 0
	}
	hash := sha256.New()
	if err := json.NewEncoder(hash).Encode(r); err != nil {
		return digest, fmt.Errorf("encoding report: %w", err)
	}
	hash.Sum(digest[:0])
	return digest, nil
}

// Failed counts a task that did not succeed, so that the next plan sees it. A task that the node rejects
// as replayed is recorded and not counted, because the node has tried nothing. A node that has just
// started rejects all tasks that were signed before, also within the second of its start, and would
// otherwise use up all attempts.
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

// Applied records that a package has applied a spec, in the package's own transaction.
func (s *Store) Applied(ctx context.Context, tx pgx.Tx, kind string, a Applied) error {
	if _, err := tx.Exec(ctx, putApplied, a.UID, kind, a.Generation, a.SpecHash, a.Gone, a.Epoch); err != nil {
		return fmt.Errorf("recording %s %s as applied: %w", kind, a.UID, err)
	}
	return nil
}

// ApplyFailed counts a failure to apply a spec.
func (s *Store) ApplyFailed(ctx context.Context, kind string, uid uuid.UUID, generation, epoch int64, why string) error {
	if _, err := s.DB.Exec(ctx, countApplyFailure, uid, kind, generation, epoch, why); err != nil {
		return fmt.Errorf("counting a failure to apply %s %s: %w", kind, uid, err)
	}
	return nil
}

func strs(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
