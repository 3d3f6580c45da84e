package agentrelease

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/product/agentrelease/rollout"
	"github.com/gpuaas/gpuaas/protocol"
)

// SubjectStopped is the fact that a version goes no further by itself.
const SubjectStopped = "fleet.agent_update_stopped"

// Stopped is its payload.
type Stopped struct {
	Version string `json:"version"`
	Ring    int    `json:"ring"`
	Nodes   int    `json:"nodes"`
	Has     int    `json:"has"`
	Lost    int    `json:"lost"`
	Message string `json:"message"`
}

// Member is a node of the fleet.
type Member struct {
	ID        ids.Node
	Name      string
	Version   string
	Platform  string
	Health    protocol.Health
	Held      bool
	Reachable bool
}

// Update is the update task of a node.
type Update struct {
	Node      ids.Node
	Version   string
	Ring      int
	Fence     int64
	Before    protocol.Health
	Status    rollout.Status
	Message   string
	Deadline  *time.Time
	UpdatedAt time.Time
}

// Lead reports whether this transaction is the only one that decides about rollouts until it ends, and
// returns the database's time.
func (*Store) Lead(ctx context.Context, tx pgx.Tx) (ok bool, now time.Time, err error) {
	if err := tx.QueryRow(ctx, tryLead).Scan(&ok, &now); err != nil {
		return false, now, fmt.Errorf("taking the lead of rollouts: %w", err)
	}
	return ok, now, nil
}

// Fleet lists the nodes that have an agent.
func (*Store) Fleet(ctx context.Context, q pg.Queryer) ([]Member, error) {
	return collect[Member](ctx, q, selectFleet)
}

// Updates lists the updates to these versions, and unfinished updates to others.
func (*Store) Updates(ctx context.Context, q pg.Queryer, versions []string) ([]Update, error) {
	return collect[Update](ctx, q, selectUpdates, versions)
}

// Moves applies a plan's changes to existing rows.
func (*Store) Moves(ctx context.Context, tx pgx.Tx, moves, forget []rollout.Move) error {
	b := &pgx.Batch{}
	for sql, list := range map[string][]rollout.Move{moveUpdates: moves, forgetUpdates: forget} {
		if len(list) == 0 {
			continue
		}
		nodes, versions := make([]uuid.UUID, len(list)), make([]string, len(list))
		statuses, messages := make([]string, len(list)), make([]string, len(list))
		for i, m := range list {
			nodes[i], versions[i], statuses[i], messages[i] = m.Node.UUID, m.Version, string(m.Status), m.Message
		}
		args := []any{nodes, versions}
		if sql == moveUpdates {
			args = append(args, statuses, messages)
		}
		b.Queue(sql, args...)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("moving updates: %w", err)
	}
	return nil
}

// RecordRequest stores that a node was sent an update task, with the fence of the task.
func (*Store) RecordRequest(ctx context.Context, tx pgx.Tx, a rollout.UpdateRequest, fence int64, within time.Duration) error {
	if _, err := tx.Exec(ctx, askUpdate, a.Node, a.Build.Version, a.Previous, a.Ring, fence, string(a.Before), within); err != nil {
		return fmt.Errorf("recording the update of %s: %w", a.Node, err)
	}
	return nil
}

// StoreVersions stores the progress of each version. It returns the versions that have just stopped, so
// that the caller can emit an event for each.
func (s *Store) StoreVersions(ctx context.Context, tx pgx.Tx, versions []rollout.Version) (stopped []rollout.Version, err error) {
	wanted, turns := []string{}, map[string]int{}
	b := &pgx.Batch{}
	for _, v := range versions {
		wanted = append(wanted, v.Version)
		b.Queue(putRollout, v.Version, string(v.State), v.Ring, v.Nodes, v.Has, v.Going, v.Lost, v.Message).Query(func(rows pgx.Rows) error {
			var turn int
			var turned bool
			_, err := pgx.ForEachRow(rows, []any{&turn, &turned}, func() error {
				if turned && v.State == rollout.Stopped {
					stopped, turns[v.Version] = append(stopped, v), turn
				}
				return nil
			})
			return err
		})
	}
	b.Queue(endRollouts, wanted)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("storing rollouts: %w", err)
	}
	b = &pgx.Batch{}
	for _, v := range stopped {
		event.Queue(b, event.Draft{
			Stream: event.StreamFleet, Subject: SubjectStopped, Aggregate: "agent_rollout:" + v.Version, Sequence: s.sequence(turns[v.Version]),
			URN:     s.Naming.Name("", "", "agent-release", v.Version).String(),
			Payload: Stopped{Version: v.Version, Ring: v.Ring, Nodes: v.Nodes, Has: v.Has, Lost: v.Lost, Message: v.Message},
		})
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("telling of rollouts: %w", err)
	}
	return stopped, nil
}

// sequence rises within a version also when its row was gone in between.
func (s *Store) sequence(turn int) int64 { return s.Clock.Now().Unix()<<8 + int64(turn&0xff) } //nolint:mnd // turns of one second

// Retry deletes the failed rows of a version, so that it is tried again.
func (s *Store) Retry(ctx context.Context, version string, by audit.By) error {
	ctx = pg.WithScope(ctx, pg.Platform)
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, retryVersion, version)
		switch {
		case err != nil:
			return fmt.Errorf("trying %s again: %w", version, err)
		case tag.RowsAffected() == 0:
			return errs.New(errs.NotFound, "no node has gone back from %s", version)
		}
		b := &pgx.Batch{}
		audit.Queue(b, audit.Entry{
			By: by, Action: "agent_release.retry", Target: s.Naming.Name("", "", "agent-release", version).String(),
			After: map[string]any{"nodes": tag.RowsAffected()},
		})
		return tx.SendBatch(ctx, b).Close()
	})
}

// Rollout is the progress of a version.
type Rollout struct {
	Version   string
	Status    rollout.State
	Ring      int
	Nodes     int
	Has       int
	Going     int
	Lost      int
	Message   string
	UpdatedAt time.Time
}

// Rollouts lists the versions that some node is to have.
func (*Store) Rollouts(ctx context.Context, q pg.Queryer) ([]Rollout, error) {
	return collect[Rollout](ctx, q, selectRollouts)
}

// Try is one update of a node to a version.
type Try struct {
	Version     string
	Previous    string
	Ring        int
	Status      rollout.Status
	Message     string
	RequestedAt time.Time
	UpdatedAt   time.Time
}

// previousVersions is enough to see the previous versions of a node.
const previousVersions = 5

// Of lists the updates of a node, the newest first.
func (*Store) Of(ctx context.Context, q pg.Queryer, node ids.Node) ([]Try, error) {
	return collect[Try](ctx, q, selectOf, node, previousVersions)
}

// Latest returns the newest update of each of these nodes that has one.
func (*Store) Latest(ctx context.Context, q pg.Queryer, nodes []uuid.UUID) (map[ids.Node]Try, error) {
	type row struct {
		Node ids.Node
		Try
	}
	list, err := collect[row](ctx, q, selectLatest, nodes)
	if err != nil {
		return nil, err
	}
	latest := make(map[ids.Node]Try, len(list))
	for _, each := range list {
		latest[each.Node] = each.Try
	}
	return latest, nil
}
