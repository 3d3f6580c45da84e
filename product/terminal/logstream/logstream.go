// Package logstream owns the rows of open streams of logs. The role api inserts a row with a token and counts the rows for its
// limits. The role terminal redeems the token and learns which log of which node to read. The package transports no lines.
package logstream

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	maxPerUser = 32
	maxPerNode = 16
	// maxPerAllocation is the limit of nodes. The policy can only be lower.
	maxPerAllocation = 16
	// silence is the time after which a row without a heartbeat does not count. The server of the API has ended.
	silence = 15 * time.Second
)

// Service is used by the roles api and terminal.
type Service struct {
	DB     pg.Pool
	Naming ids.Naming
	// PerAllocation returns the limit of a project's streams.
	PerAllocation func(tenant ids.Tenant, project ids.Project) int
}

// Request is a request for a stream. An allocation or a node is set.
type Request struct {
	Caller     identity.Caller
	Tenant     ids.Tenant
	Project    ids.Project
	Allocation ids.Allocation
	Node       ids.Node
	Query      protocol.LogQuery
	Trace      string
}

// Ticket is the right to one stream. Its token is valid once.
type Ticket struct {
	ID    uuid.UUID
	Token string
}

// Create inserts a stream, if the limits allow it. To read a log of a node is audited.
func (s *Service) Create(ctx context.Context, r Request) (t Ticket, err error) {
	query, err := json.Marshal(r.Query)
	if err != nil {
		return t, fmt.Errorf("encoding a log query: %w", err)
	}
	token, hash := identity.NewToken(terminal.Prefix) // the role terminal redeems it, too
	t = Ticket{uuid.Must(uuid.NewV7()), token}
	b := &pgx.Batch{}
	b.Queue(deleteSilent, silence)
	b.Queue(lockOpening, r.Caller.Principal().String(), pg.NullID(r.Allocation.UUID), pg.NullID(r.Node.UUID))
	b.Queue(countOpen, r.Caller.Principal(), r.Allocation, r.Node, silence).QueryRow(func(row pgx.Row) error {
		var ofUser, ofTarget int
		if err := row.Scan(&ofUser, &ofTarget); err != nil {
			return fmt.Errorf("counting streams of logs: %w", err)
		}
		return s.full(r, ofUser, ofTarget)
	})
	b.Queue(insertStream, t.ID, hash[:], pg.NullID(r.Tenant.UUID), pg.NullID(r.Project.UUID), pg.NullID(r.Allocation.UUID), pg.NullID(r.Node.UUID), r.Caller.Principal(), query, r.Trace)
	if r.Node != (ids.Node{}) {
		audit.Queue(b, audit.Entry{
			By: r.Caller.Cause(), Action: "node.logs", Target: s.Naming.Name("", "", "node", r.Node.String()).String(),
			After: map[string]any{"source": r.Query.Source, "tail": r.Query.Tail, "follow": r.Query.Follow},
		})
	}
	return t, pg.Commit(ctx, s.DB, b, func() {})
}

func (s *Service) full(r Request, ofUser, ofTarget int) error {
	most, of := maxPerNode, "node"
	if r.Allocation != (ids.Allocation{}) {
		most, of = min(s.PerAllocation(r.Tenant, r.Project), maxPerAllocation), "allocation"
	}
	switch {
	case ofTarget >= most:
		return errs.New(errs.ConcurrencyLimitReached, "the %s has %d open streams of logs", of, ofTarget).Try("end one of them")
	case ofUser >= maxPerUser:
		return errs.New(errs.ConcurrencyLimitReached, "you have %d open streams of logs", ofUser).Try("end one of them")
	}
	return nil
}

// Beat states that the stream is served.
func (s *Service) Beat(ctx context.Context, id uuid.UUID) error {
	if _, err := s.DB.Exec(ctx, beat, id); err != nil {
		return fmt.Errorf("sending the heartbeat of a stream of logs: %w", err)
	}
	return nil
}

// DeleteSilent deletes some rows of streams without a server, and returns how many. Streams beat, so the table is small.
func DeleteSilent(ctx context.Context, q pg.Queryer, _ time.Duration, most int) (int64, error) {
	tag, err := q.Exec(ctx, deleteOld, silence, most)
	if err != nil {
		return 0, fmt.Errorf("deleting streams of logs: %w", err)
	}
	return tag.RowsAffected(), nil
}

// End removes a stream.
func (s *Service) End(ctx context.Context, id uuid.UUID) error {
	if _, err := s.DB.Exec(ctx, deleteStream, id); err != nil {
		return fmt.Errorf("ending a stream of logs: %w", err)
	}
	return nil
}

// Target names the log of a stream. The fence is 0 for a log of the node.
type Target struct {
	Node       ids.Node
	Allocation ids.Allocation
	Fence      int64
	Query      protocol.LogQuery
	Trace      string
}

// Redeem consumes a token.
func (s *Service) Redeem(ctx context.Context, token string) (t Target, err error) {
	hash := sha256.Sum256([]byte(token))
	var query []byte
	var node, allocation *uuid.UUID
	err = s.DB.QueryRow(ctx, redeem, hash[:], silence).Scan(&node, &allocation, &query, &t.Trace)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return t, errs.New(errs.TerminalTokenInvalid, "the token of a stream of logs was used or has expired").Try("open the stream again")
	case err != nil:
		return t, fmt.Errorf("reading a stream of logs: %w", err)
	}
	if err := json.Unmarshal(query, &t.Query); err != nil {
		return t, fmt.Errorf("reading a log query: %w", err)
	}
	if node != nil {
		t.Node = ids.From[ids.Node](*node)
		return t, nil
	}
	t.Allocation = ids.From[ids.Allocation](*allocation)
	err = s.DB.QueryRow(ctx, selectTarget, t.Allocation).Scan(&t.Node, &t.Fence)
	if errors.Is(err, pgx.ErrNoRows) {
		return t, errs.New(errs.AllocationNotActive, "the allocation is on no node").Try("wait until it is provisioned")
	} else if err != nil {
		return t, fmt.Errorf("reading the node of %s: %w", t.Allocation, err)
	}
	return t, nil
}
