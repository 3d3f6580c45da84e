// Package nodetask owns each node's mailbox: signed orders waiting to be pulled,
// and what became of them. A node is never dialled; it asks.
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

// Signer signs the canonical bytes of an envelope. The key's name is part of
// what is signed, so it is asked for first.
type Signer interface {
	Active() (kid string)
	Sign(ctx context.Context, kid string, body []byte) (signature []byte, err error)
}

// Store is every node's mailbox.
type Store struct {
	DB     pg.Pool
	Signer Signer
	Hints  *hint.Bus
	Clock  clock.Clock
	// Figures count how tasks fare; nil: nobody counts.
	Figures *Metrics
}

const (
	// lifetime bounds how late a task may still be started. Long work goes on
	// after it; the deadline of the work itself stands in the due set.
	lifetime = 2 * time.Minute
	// clockSlack is how far a host's clock may be behind ours.
	clockSlack = protocol.Backdate
	// deliverAgain follows a delivery that nothing was heard of: the agent died
	// between the pull and its journal.
	deliverAgain = 5 * time.Second
)

// Topic is where a node's waiting poll is hinted at.
func Topic(node ids.Node) string { return "node:" + node.String() }

// Order is what a job asks a node for.
type Order struct {
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

// Put leaves an order in the mailbox, in the transaction of whoever decided it.
// The same order again, while one is on its way, is no second order; a newer
// fence supersedes what waits; an older one is refused as task_superseded.
func (s *Store) Put(ctx context.Context, tx pgx.Tx, o Order) error {
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

// Hint wakes the node's poll after the commit.
func (s *Store) Hint(node ids.Node) { s.Hints.Send(Topic(node)) }

// dropOldest settles what waits for the same allocation and counts the attempt.
func (s *Store) dropOldest(ctx context.Context, tx pgx.Tx, o Order) (attempt int, waits bool, err error) {
	if o.Allocation == (ids.Allocation{}) {
		var expired int
		err := tx.QueryRow(ctx, settleNodeTasks, o.Node, o.Type).Scan(&expired, &waits)
		if err != nil {
			return 0, false, fmt.Errorf("reading mailbox: %w", err)
		}
		s.Figures.expired(o.Type, expired)
		return 1, waits, nil
	}
	var newest int64
	var expired int
	err = tx.QueryRow(ctx, settleTasks, o.Allocation, o.Fence, o.Type).Scan(&expired, &newest, &attempt, &waits)
	s.Figures.expired(o.Type, expired)
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("reading mailbox: %w", err)
	case newest > o.Fence:
		return 0, false, errs.New(errs.TaskSuperseded, "fence %d was overtaken by %d", o.Fence, newest)
	}
	return attempt + 1, waits, nil
}

func (s *Store) sign(ctx context.Context, o Order, attempt int) (protocol.Signed, protocol.Envelope, error) {
	params, err := json.Marshal(o.Params)
	if err != nil {
		return protocol.Signed{}, protocol.Envelope{}, fmt.Errorf("encoding task: %w", err)
	}
	nonce := make([]byte, 16)
	if _, err := rand.Read(nonce); err != nil {
		return protocol.Signed{}, protocol.Envelope{}, fmt.Errorf("drawing nonce: %w", err)
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

// Next hands each of the nodes its oldest waiting task, if it has one, and marks
// it delivered. Nodes that are woken together cost one statement.
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
		t = protocol.Signed{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading mailboxes: %w", err)
	}
	return taken, nil
}

// Step records progress of a running task; one that was overtaken is told so.
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

// Finish accepts a result by compare-and-set on task, node, allocation, fence and
// attempt: a node speaks for nothing but what it was asked.
// The same result again is no second result.
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
		s.Figures.ended(kind, dispatch, duration, r.Code)
		return true, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return false, fmt.Errorf("accepting result: %w", err)
	}
	var same bool
	if err := tx.QueryRow(ctx, sameResult, r.Task, node, r.Fence, r.Attempt, status, null(r.Allocation)).Scan(&same); err != nil {
		return false, fmt.Errorf("accepting result: %w", err)
	}
	if !same {
		return false, superseded(0, r.Task)
	}
	return false, nil
}

func superseded(rows int64, task ids.Task) error {
	if rows == 0 {
		return errs.New(errs.TaskSuperseded, "task %s no longer waits for this", task)
	}
	return nil
}

func null(a ids.Allocation) *uuid.UUID {
	if a == (ids.Allocation{}) {
		return nil
	}
	return &a.UUID
}
