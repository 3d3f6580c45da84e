// Package nodetask owns each node's mailbox: signed tasks that wait for the node's poll, and their
// results. The server never connects to a node; the node polls.
package nodetask

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
)

// Signer signs the canonical bytes of an envelope. The envelope contains the key id, so the id is
// read first.
type Signer interface {
	Active() (kid string)
	Sign(ctx context.Context, kid string, body []byte) (signature []byte, err error)
}

// Store is every node's mailbox.
type Store struct {
	DB pg.Pool
	// Signer signs tasks. It is nil in a role that puts none into mailboxes.
	Signer Signer
	Hints  *hint.Bus
	Clock  clock.Clock
	// Metrics measures tasks. Nil disables the metrics.
	Metrics *Metrics
}

const (
	// lifetime limits how late a node may start a task. A long task continues after it; the
	// deadline of the whole action is in the due set.
	lifetime = 2 * time.Minute
	// workTime limits how long a task counts as running without a result. A second one at its fence would make the
	// node start again. The longest task, the scrub of eight GPUs, ends within it.
	workTime = 15 * time.Minute
	// clockSlack is the allowed delay of a node's clock behind ours.
	clockSlack = protocol.Backdate
	// deliverAgain follows a delivery that nothing was heard of: the agent died
	// between the pull and its journal.
	deliverAgain = 5 * time.Second
)

// Topic returns the hint topic of a node's waiting poll.
func Topic(node ids.Node) string { return "node:" + node.String() }

// Task is a task as a job requests it.
type Task struct {
	Node       ids.Node
	Allocation ids.Allocation // zero: about the node
	Type       protocol.Type
	Fence      int64
	Generation int64
	SpecHash   string
	Slots      []string
	Params     any
	Trace      string
}

// Put queues a task in the mailbox within the caller's transaction. A task equal to the pending one
// changes nothing, as does a release equal to one that has just succeeded. A newer fence supersedes the
// pending task, and an older fence returns task_superseded.
func (s *Store) Put(ctx context.Context, tx pgx.Tx, o Task) error {
	attempt, waits, err := s.dropOldest(ctx, tx, o)
	if err != nil || waits {
		return err
	}
	signed, env, err := s.sign(ctx, o, attempt)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, insertTask, env.Task, o.Node, null(o.Allocation), o.Type, o.Fence, o.Generation, attempt,
		signed.Body, signed.Signature, env.ExpiresAt)
	if err != nil {
		return fmt.Errorf("placing task: %w", err)
	}
	return nil
}

// PutAbove queues the release of an allocation that nothing declares. o.Fence is the one that the node has reported. The
// release gets a fence above it and above all tasks of the allocation: some of them may never have reached the node. A
// newest task that is such a release is put again with its own fence, because the node would start again with a newer one.
// It gets a newer one after the release of a declared allocation: the node rejects another spec hash at one fence.
func (s *Store) PutAbove(ctx context.Context, tx pgx.Tx, o Task) error {
	var newest int64
	var releases bool
	err := tx.QueryRow(ctx, selectNewest, o.Allocation, o.Node, o.Type).Scan(&newest, &releases)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("reading the newest task of %s: %w", o.Allocation, err)
	}
	if releases && newest >= o.Fence {
		o.Fence = newest
	} else {
		o.Fence = max(newest, o.Fence) + 1
	}
	return s.Put(ctx, tx, o)
}

// Hint notifies the node's poll after the commit.
func (s *Store) Hint(node ids.Node) { s.Hints.Send(Topic(node)) }

// proofWithin is the time in which the report with the proof follows the result of a release. The proof frees the slot,
// and a second release at that moment would lock a GPU that is sold.
const proofWithin = 10 * time.Second

// dropOldest ends the unfinished tasks that o supersedes, and counts its attempt. waits is true if an equal task is
// pending, so that o needs no row.
func (s *Store) dropOldest(ctx context.Context, tx pgx.Tx, o Task) (attempt int, waits bool, err error) {
	if o.Allocation == (ids.Allocation{}) {
		var expired int
		err := tx.QueryRow(ctx, finishNodeTasks, o.Node, o.Type).Scan(&expired, &waits)
		if err != nil {
			return 0, false, fmt.Errorf("reading mailbox: %w", err)
		}
		s.Metrics.expired(o.Type, expired)
		return 1, waits, nil
	}
	var newest int64
	var expired int
	// Only a release is followed by a proof. A provisioning that has succeeded is requested again when the node has lost
	// its state, and must not be dropped as a repetition.
	proofs := time.Duration(0)
	if o.Type.Effect() == protocol.Releases {
		proofs = proofWithin
	}
	err = tx.QueryRow(ctx, finishTasks, o.Allocation, o.Fence, o.Type, proofs, o.Node, workTime-lifetime).Scan(&expired, &newest, &attempt, &waits)
	s.Metrics.expired(o.Type, expired)
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("reading mailbox: %w", err)
	// A newer decision was queued after this one was planned. The job ends without an effect.
	case newest > o.Fence:
		return 0, false, errs.New(errs.TaskSuperseded, "fence %d was overtaken by %d", o.Fence, newest)
	}
	return attempt + 1, waits, nil
}

func (s *Store) sign(ctx context.Context, o Task, attempt int) (protocol.Signed, protocol.Envelope, error) {
	params, err := json.Marshal(o.Params)
	if err != nil {
		return protocol.Signed{}, protocol.Envelope{}, fmt.Errorf("encoding task: %w", err)
	}
	nonce := make([]byte, 16)
	if _, err := rand.Read(nonce); err != nil {
		return protocol.Signed{}, protocol.Envelope{}, fmt.Errorf("drawing nonce: %w", err)
	}
	if s.Signer == nil {
		return protocol.Signed{}, protocol.Envelope{}, errs.New(errs.Internal, "this process signs no tasks")
	}
	now := s.Clock.Now().Truncate(time.Second)
	env := protocol.Envelope{
		V: protocol.Version, Kid: s.Signer.Active(), Task: ids.New[ids.Task](), Node: o.Node, Allocation: o.Allocation,
		Slots: o.Slots, Generation: o.Generation, Fence: o.Fence, Attempt: attempt, Type: o.Type, Params: params,
		SpecHash: o.SpecHash, NotBefore: now.Add(-clockSlack), ExpiresAt: now.Add(lifetime), Nonce: hex.EncodeToString(nonce), Trace: o.Trace,
	}
	body, err := env.Canonical()
	if err != nil {
		return protocol.Signed{}, protocol.Envelope{}, err
	}
	signature, err := s.Signer.Sign(ctx, env.Kid, body)
	if err != nil {
		return protocol.Signed{}, protocol.Envelope{}, fmt.Errorf("signing task: %w", err)
	}
	return protocol.Signed{Body: body, Signature: signature}, env, nil
}

// Next returns the oldest waiting task of each node and marks it delivered. One statement serves
// all nodes whose polls were notified together.
func (s *Store) Next(ctx context.Context, nodes ...ids.Node) (map[ids.Node]protocol.Signed, error) {
	keys := make([]uuid.UUID, len(nodes))
	for i, n := range nodes {
		keys[i] = n.UUID
	}
	rows, err := s.DB.Query(ctx, takeTasks, keys, deliverAgain)
	if err != nil {
		return nil, fmt.Errorf("reading mailboxes: %w", err)
	}
	taken := map[ids.Node]protocol.Signed{}
	var node ids.Node
	var t protocol.Signed
	_, err = pgx.ForEachRow(rows, []any{&node, &t.Body, &t.Signature}, func() error {
		taken[node] = t
		// The bytes of the next row must not overwrite those of this one.
		t = protocol.Signed{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading mailboxes: %w", err)
	}
	return taken, nil
}

// Step stores the progress of a running task. A superseded task returns an error.
func (s *Store) Step(ctx context.Context, node ids.Node, task ids.Task, p protocol.Progress) error {
	step := fmt.Sprintf("%s (%d of %d)", p.Step, p.Number, p.Of)
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, stepTask, task, node, p.Fence, p.Attempt, step)
		if err != nil {
			return fmt.Errorf("recording progress: %w", err)
		}
		return superseded(tag.RowsAffected(), task)
	})
}

// Finish accepts a result by compare-and-set on task, node, allocation, fence and attempt: a node
// can only report results of its own tasks. A repeated result has no effect.
func (s *Store) Finish(ctx context.Context, tx pgx.Tx, node ids.Node, r protocol.Result) (first bool, err error) {
	status := "succeeded"
	if r.Outcome != protocol.Succeeded {
		status = "failed"
	}
	var kind protocol.Type
	var dispatch, duration float64
	err = tx.QueryRow(ctx, finishTask, r.Task, node, r.Fence, r.Attempt, status, string(r.Code), r.Message, r.Step, null(r.Allocation)).
		Scan(&kind, &dispatch, &duration)
	switch {
	case err == nil:
		s.Metrics.ended(kind, dispatch, duration, r.Code)
		return true, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return false, fmt.Errorf("accepting result: %w", err)
	}
	// The node repeats a result until the server acknowledges it. The first copy has ended the task, so no row matched:
	// an equal result is acknowledged again, and a different one belongs to a superseded task.
	var same bool
	if err := tx.QueryRow(ctx, sameResult, r.Task, node, r.Fence, r.Attempt, status, null(r.Allocation)).Scan(&same); err != nil {
		return false, fmt.Errorf("accepting result: %w", err)
	}
	if !same {
		return false, superseded(0, r.Task)
	}
	return false, nil
}

// superseded returns task_superseded if a compare-and-set changed no row.
func superseded(rows int64, task ids.Task) error {
	if rows == 0 {
		return errs.New(errs.TaskSuperseded, "task %s no longer waits for this", task)
	}
	return nil
}

// null returns NULL for a task about the node itself, which belongs to no allocation.
func null(a ids.Allocation) *uuid.UUID {
	if a == (ids.Allocation{}) {
		return nil
	}
	return &a.UUID
}
