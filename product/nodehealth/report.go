package nodehealth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/protocol"
)

// ApplyReport applies a changed report: the devices, their health, the hardware, and slots for new
// devices. A missing device is never removed silently: it becomes unhealthy.
func (s *Service) ApplyReport(ctx context.Context, tx pgx.Tx, id ids.Node, r protocol.Report) error {
	if err := protocol.CheckHealth(r.Health); err != nil {
		return errs.Invalid("health", "%v", err)
	}
	k, err := s.lockState(ctx, tx, id)
	if err != nil {
		return err
	}
	k.updateDevices(r)
	changed, accept := k.compare(r)
	v := k.classify(&r, s.Rules(k.SKU).Action)
	lifecycle := "active"
	if slices.Contains(r.Unsupported, protocol.ProvisionUser) {
		// The node is visible, but without the required capability its slots must not be sold.
		lifecycle = "enrolled"
		v.Message = cmp.Or(v.Message, "its agent cannot run allocations")
	}
	b := &pgx.Batch{}
	fleet.QueueGPUs(b, id, r.Inventory.GPUs)
	slots.QueueAdd(b, id)
	if accept != nil {
		fleet.QueueAccepted(b, id, accept)
	}
	if r.Topology != nil {
		fleet.QueueTopology(b, id, r.Topology)
	}
	if missing := missingForMounts(r.Mounts); !equal(missing, k.MountsMissing) {
		fleet.QueueMounts(b, id, missing)
	}
	if changed != k.Changed {
		fleet.QueueChanged(b, id, changed)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("recording inventory of %s: %w", id, err)
	}
	return s.writeHealth(ctx, tx, id, k, v, change{hardware: changed, lifecycle: lifecycle, foreign: foreign(r), reachable: true})
}

// maxMissing limits what a node states, in bytes: tenants read it.
const maxMissing = 100

func missingForMounts(m *protocol.MountSupport) *string {
	switch {
	case m == nil:
		return nil
	case m.Supported:
		return new("")
	}
	return new(cmp.Or(strings.ToValidUTF8(m.Missing[:min(len(m.Missing), maxMissing)], ""), "a part that the node does not name"))
}

func equal(a, b *string) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// lockState locks the node, and reads its stored state. Two reports of one node must not interleave
// their devices.
func (s *Service) lockState(ctx context.Context, tx pgx.Tx, id ids.Node) (*nodeState, error) {
	k, b := &nodeState{}, &pgx.Batch{}
	b.Queue(lockNode, id).QueryRow(func(row pgx.Row) error {
		return row.Scan(&k.Expected, &k.SKU, &k.Name, &k.Lifecycle, &k.Health, &k.Message, &k.Reachability, &k.Version, &k.Fingerprint, &k.Accepted, &k.Changed, &k.MountsMissing)
	})
	b.Queue(selectCards, id).Query(func(rows pgx.Rows) (err error) {
		k.Cards, err = pgx.CollectRows(rows, pgx.RowToStructByPos[gpuRow])
		return err
	})
	b.Queue(selectContested, id).Query(func(rows pgx.Rows) (err error) {
		k.Contested, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	b.Queue(selectReports, id).Query(func(rows pgx.Rows) (err error) {
		k.Reports, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Report])
		return err
	})
	b.Queue(selectOwnHolds, id).Query(func(rows pgx.Rows) (err error) {
		k.Holds, err = pgx.CollectRows(rows, pgx.RowToStructByPos[systemHold])
		return err
	})
	err := tx.SendBatch(ctx, b).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errs.New(errs.NotFound, "no such node")
	}
	if err != nil {
		return nil, fmt.Errorf("locking node %s: %w", id, err)
	}
	return k, nil
}

// updateDevices updates the stored devices from the report.
func (k *nodeState) updateDevices(r protocol.Report) {
	listed := map[string]bool{}
	for _, g := range r.Inventory.GPUs {
		listed[g.UUID] = true
		i := slices.IndexFunc(k.Cards, func(c gpuRow) bool { return c.UUID == g.UUID })
		if i < 0 {
			k.Cards = append(k.Cards, gpuRow{UUID: g.UUID})
			i = len(k.Cards) - 1
		}
		k.Cards[i].Index, k.Cards[i].Present = g.Index, true
	}
	for i, c := range k.Cards {
		if r.Complete && !listed[c.UUID] {
			k.Cards[i].Present = false
		}
	}
	slices.SortStableFunc(k.Cards, func(a, b gpuRow) int { return cmp.Compare(a.Index, b.Index) })
}

// compare returns the difference between the reported and the accepted hardware. The first complete
// topology is accepted automatically. An incomplete one proves nothing.
func (k *nodeState) compare(r protocol.Report) (changed string, accept *protocol.Hardware) {
	if !r.Complete || r.Topology == nil || len(r.Topology.Missing) > 0 {
		if r.Complete && r.Fingerprint != "" && r.Fingerprint == k.Fingerprint {
			return "", nil // it reads as before
		}
		return k.Changed, nil
	}
	h := r.Topology.Hardware()
	switch {
	case k.Accepted == nil:
		return "", &h
	case h.Fingerprint() == k.Fingerprint:
		return "", nil
	}
	return strings.Join(k.Accepted.Changes(h), "; "), nil
}

func cardRows(k *nodeState, v verdict) []fleet.GPUHealth {
	rows := []fleet.GPUHealth{}
	for _, c := range k.Cards {
		is := v.Cards[c.UUID]
		rows = append(rows, fleet.GPUHealth{UUID: c.UUID, Health: is.Health, Reasons: is.Reasons, Present: c.Present})
	}
	return rows
}

// foreign returns the devices that are used without an allocation. The node's text begins with the
// device.
func foreign(r protocol.Report) []string {
	used := []string{}
	for _, words := range r.Foreign {
		gpu, _, _ := strings.Cut(words, ": ")
		used = append(used, gpu)
	}
	return used
}

// change contains the rows that settle writes in addition to a verdict.
type change struct {
	hardware  string   // how it differs from what was accepted
	lifecycle string   // of a node that reports; empty: as it is
	foreign   []string // devices used without an allocation; nil: as before
	reachable bool
}

// writeHealth writes a verdict: the reports, the health of node and devices, the platform's holds within
// the limit of the breaker, and the state of the slots.
func (s *Service) writeHealth(ctx context.Context, tx pgx.Tx, id ids.Node, k *nodeState, v verdict, c change) error {
	rows, err := json.Marshal(v.Reports)
	if err != nil {
		return fmt.Errorf("encoding health of %s: %w", id, err)
	}
	b := &pgx.Batch{}
	b.Queue(putReports, id, rows)
	b.Queue(forgetReports, id, rows)
	fleet.QueueGPUHealth(b, id, cardRows(k, v))
	if c.lifecycle == "" {
		fleet.QueueHealth(b, id, v.Health, v.Message)
	} else {
		fleet.QueueReported(b, id, v.Health, v.Message, c.lifecycle)
	}
	if string(v.Health) != k.Health {
		s.emitHealth(b, id, k, v)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("recording health of %s: %w", id, err)
	}
	if err := s.applyHolds(ctx, tx, id, k, v, c.hardware); err != nil {
		return err
	}
	b = &pgx.Batch{}
	slots.QueueFollowHealth(b, id, c.foreign)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("following the slots of %s: %w", id, err)
	}
	return nil
}
