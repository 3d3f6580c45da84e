// Package recovery compares a restored database with what nodes report, and confirms the restore. It destroys nothing: an
// allocation that a node runs and the database has lost stays, and its node sells nothing until an operator decides.
package recovery

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/autotopup"
	"github.com/gpuaas/gpuaas/platform/restore"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/fleet"
)

// Service compares and confirms with the rights of the owner of the schema.
type Service struct {
	DB          pg.Pool
	Allocations *allocation.Service
}

// State describes the restores of a database.
type State struct {
	// InProgress is nil if no restore waits for a confirmation.
	InProgress  *restore.Restore     `json:"in_progress"`
	Last        *restore.Restore     `json:"last"` // confirmed
	Nodes       []restore.Node       `json:"nodes"`
	Differences []restore.Difference `json:"differences"`
}

// Silent returns the names of the nodes that should report and have not.
func (s State) Silent() (names []string) {
	for _, n := range s.Nodes {
		if n.ReportedAt == nil {
			names = append(names, n.Name)
		}
	}
	return names
}

// State compares the database with the reports of nodes.
func (s *Service) State(ctx context.Context) (State, error) { return read(ctx, s.DB) }

func read(ctx context.Context, q pg.Queryer) (State, error) {
	st := State{Nodes: []restore.Node{}, Differences: []restore.Difference{}}
	var err error
	if st.InProgress, err = restore.Open(ctx, q); err != nil {
		return State{}, err
	}
	if st.Last, err = restore.Last(ctx, q); err != nil || st.InProgress == nil {
		return st, err
	}
	if st.Nodes, err = restore.Nodes(ctx, q); err != nil {
		return State{}, err
	}
	st.Differences, err = restore.Differences(ctx, q)
	return st, err
}

// Confirmation is the request of an operator.
type Confirmation struct {
	By           string
	WithoutNodes []string // names of nodes that are not waited for; each sells nothing until an operator removes its operator hold
	// Agreed is the digest of the plan that was displayed to the operator. Another plan is rejected; empty: it is not compared.
	Agreed string
}

// Done lists the effects of a confirmation.
type Done struct {
	Restore  restore.Restore `json:"restore"`
	Already  bool            `json:"already"` // it was confirmed before
	Fences   int             `json:"fences_raised"`
	Unknown  []uuid.UUID     `json:"unknown"`  // allocations
	Released []uuid.UUID     `json:"released"` // allocations that their nodes had released
	Cordoned []string        `json:"cordoned"` // nodes
	Jobs     int64           `json:"jobs_removed"`
	Paused   int             `json:"auto_topups_paused"`
}

// Confirm lets the servers continue. All its effects are one transaction; a crash before its commit leaves the restore
// unconfirmed. Repeated, it returns the confirmed restore.
func (s *Service) Confirm(ctx context.Context, c Confirmation) (done Done, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if err := restore.Lock(ctx, tx); err != nil {
			return err
		}
		st, err := read(ctx, tx)
		if err != nil {
			return err
		}
		if st.InProgress == nil {
			return already(st, &done)
		}
		if err := checkReports(st, c.WithoutNodes); err != nil {
			return err
		}
		if c.Agreed != "" && c.Agreed != st.Digest() {
			return errs.New(errs.Conflict, "a report of a node has changed the differences since they were displayed").Try("repeat it, and read them again")
		}
		done = Done{Restore: *st.InProgress, Unknown: []uuid.UUID{}, Released: []uuid.UUID{}, Cordoned: []string{}}
		if err := s.apply(ctx, tx, st, c, &done); err != nil {
			return err
		}
		failpoint.Hit("recovery.confirm.before_commit")
		return nil
	})
	if err == nil {
		failpoint.Hit("recovery.confirm.after_commit")
	}
	return done, err
}

func already(st State, done *Done) error {
	if st.Last == nil {
		return errs.New(errs.NotFound, "the database was never restored").Try("gpuaas restore begin marks a restored database")
	}
	*done = Done{Restore: *st.Last, Already: true}
	return nil
}

// checkReports rejects a confirmation before all nodes have reported.
func checkReports(st State, without []string) error {
	var known, silent []string
	for _, n := range st.Nodes {
		known = append(known, n.Name)
		if n.ReportedAt == nil && !slices.Contains(without, n.Name) {
			silent = append(silent, n.Name)
		}
	}
	for _, name := range without {
		if !slices.Contains(known, name) {
			return errs.Invalid("--without-nodes", "no node that should report is named %q", name)
		}
	}
	if len(silent) > 0 {
		return errs.New(errs.Conflict, "%d nodes have not reported since the restore began: %s", len(silent), strings.Join(silent, ", ")).
			Try("start the server and wait for their reports, or name them in --without-nodes")
	}
	return nil
}

// apply makes the database agree with the reports.
func (s *Service) apply(ctx context.Context, tx pgx.Tx, st State, c Confirmation, done *Done) (err error) {
	p := st.plan()
	b := &pgx.Batch{}
	for _, d := range p.unknown {
		restore.QueueUnknown(b, st.InProgress.ID, d)
		done.Unknown = append(done.Unknown, *d.Allocation)
	}
	if done.Fences, err = desired.RaiseFences(ctx, tx, p.fences); err != nil {
		return err
	}
	if err := s.release(ctx, tx, p.release, done); err != nil {
		return err
	}
	for _, n := range st.Nodes {
		if reason, is := p.cordon[n.ID]; is {
			fleet.QueueHold(b, fleet.Hold{Node: n.ID, Kind: fleet.Cordon, Cause: fleet.ByOperator, Owner: byCommand().Actor, Reason: reason})
			done.Cordoned = append(done.Cordoned, n.Name)
		}
	}
	topUps := autotopup.Service{Service: &payment.Service{Naming: s.Allocations.Naming}}
	if done.Paused, err = topUps.PauseAll(ctx, tx, byCommand()); err != nil {
		return err
	}
	return finish(ctx, tx, b, c, done)
}

// release releases what nodes have released by a decision of the lost time. No node runs it, so nothing is destroyed.
func (s *Service) release(ctx context.Context, tx pgx.Tx, differences []restore.Difference, done *Done) error {
	for _, d := range differences {
		a, err := s.Allocations.Lock(ctx, tx, ids.Allocation{UUID: *d.Allocation})
		if err != nil {
			return err
		}
		if _, err := s.Allocations.ForceRelease(ctx, tx, a, allocation.ReasonAdmin, "its node had released it when the database was restored", identity.Caller{}); err != nil {
			return err
		}
		b := &pgx.Batch{}
		audit.Queue(b, audit.Entry{Tenant: a.Tenant, By: byCommand(), Action: "allocation.force_release", Target: a.URN(s.Allocations.Naming)})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("releasing %s: %w", a.ID, err)
		}
		done.Released = append(done.Released, *d.Allocation)
	}
	return nil
}

// byCommand is the cause in audit rows: the operator needs no sign-in on the server.
func byCommand() audit.By { return audit.OnServer("system:operator", "gpuaas restore confirm") }

// finish ends what the restored state must not continue, and confirms.
func finish(ctx context.Context, tx pgx.Tx, b *pgx.Batch, c Confirmation, done *Done) error {
	// The sweep of the loop derives these jobs again, from the reports.
	tag, err := tx.Exec(ctx, deleteLoopJobs)
	if err != nil {
		return fmt.Errorf("removing the jobs of the loop: %w", err)
	}
	done.Jobs = tag.RowsAffected()
	report, err := json.Marshal(done)
	if err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	revocation.QueueSessionsBefore(b, done.Restore.BeganAt)
	restore.QueueConfirm(b, c.By, report)
	audit.Queue(b, audit.Entry{By: byCommand(), Action: "restore.confirm", Target: restore.Target(done.Restore.ID), After: done})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("confirming the restore: %w", err)
	}
	return nil
}
