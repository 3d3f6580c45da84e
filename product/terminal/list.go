package terminal

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Filter selects sessions. A zero value selects all.
type Filter struct {
	Tenant     ids.Tenant
	Project    ids.Project
	Principal  uuid.UUID
	Allocation uuid.UUID
	Node       ids.Node
	Status     string // open, ended
	After      uuid.UUID
	Limit      int
}

// List returns sessions, newest first.
func (s *Service) List(ctx context.Context, f Filter) ([]Session, error) {
	return pg.List(ctx, s.DB, "terminal sessions", selectSessions, scan, f.Tenant, f.Project, f.Principal, f.Allocation, f.Node, f.Status, f.After, f.Limit)
}

// RequestEnd has the server of an open session end it. A zero project or principal matches all.
func (s *Service) RequestEnd(ctx context.Context, ch identity.Change[struct{}], id uuid.UUID, project ids.Project, principal uuid.UUID, why Reason) error {
	_, err := ch.Apply(ctx, s.Identity, func() (struct{}, func(*pgx.Batch), error) {
		one, err := pg.One(ctx, s.DB, "terminal session", selectSession, scan, id, project, principal)
		switch {
		case err != nil:
			return struct{}{}, nil, err
		case one.EndedAt != nil:
			return struct{}{}, nil, errs.New(errs.NotFound, "the terminal session has ended")
		}
		return struct{}{}, func(b *pgx.Batch) {
			b.Queue(requestEnd, id, string(why), ch.Caller.Actor())
			audit.Queue(b, audit.Entry{Tenant: one.Tenant, By: ch.Caller.Cause(), Action: "terminal.request_end", Target: one.URN(s.Naming), After: map[string]any{"reason": why}})
		}, nil
	})
	if err == nil {
		failpoint.Hit("terminal.request_end.after_commit")
		s.Hints.Send(Topic)
	}
	return err
}

func scan(row pgx.CollectableRow) (v Session, err error) {
	var purpose, reason string
	err = row.Scan(&v.ID, &v.Tenant, &v.Project, &v.Principal, &v.Program, &v.SignIn, &v.SignInEnd, &v.Scopes, &v.Limited, &v.CorrelationID, &v.Allocation, &v.Node, &v.Fence,
		&v.Instance, &purpose, &v.Client.Address, &v.Client.UserAgent, &v.Connected, &v.Received, &v.Sent, &v.HostKey, &reason, &v.ExitStatus, &v.CreatedAt, &v.UpdatedAt, &v.EndedAt)
	v.Purpose, v.EndReason = Purpose(purpose), Reason(reason)
	return v, err
}

// DeleteTokens deletes some expired tokens and returns how many. Tokens live for minutes, so the table is small.
func DeleteTokens(ctx context.Context, q pg.Queryer, _ time.Duration, most int) (int64, error) {
	tag, err := q.Exec(ctx, deleteTokens, most)
	if err != nil {
		return 0, fmt.Errorf("deleting expired terminal tokens: %w", err)
	}
	return tag.RowsAffected(), nil
}

// DeleteSessions deletes some sessions that ended before an age, and returns how many. A session can be open for longer than a
// month, so the table has no partitions.
func DeleteSessions(ctx context.Context, q pg.Queryer, age time.Duration, most int) (int64, error) {
	tag, err := q.Exec(ctx, deleteSessions, age, most)
	if err != nil {
		return 0, fmt.Errorf("deleting ended terminal sessions: %w", err)
	}
	return tag.RowsAffected(), nil
}
