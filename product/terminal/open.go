package terminal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// Opened is a new session and the account on its node.
type Opened struct {
	Session

	Login    string
	HostKeys []string // that the node has reported, as in authorized_keys
}

// Open records a session on this server, if the limits and the rights of the holder allow it now.
func (s *Service) Open(ctx context.Context, instance uuid.UUID, g Grant, client audit.Client) (Opened, error) {
	o := Opened{Session: Session{
		ID: uuid.Must(uuid.NewV7()), Holder: g.Holder, Allocation: g.Allocation, Instance: instance, Purpose: g.Purpose, Client: client.Clean(), Connected: true,
	}}
	if g.Purpose == SSH {
		if err := s.RejectUnrecorded(g.Tenant, g.Project); err != nil {
			return o, err
		}
	}
	err := s.DB.QueryRow(ctx, selectTarget, g.Allocation, g.Tenant, g.Project).Scan(&o.Node, &o.Login, &o.Fence, &o.HostKeys)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return o, errs.New(errs.AllocationNotActive, "the allocation is not active").Try("wait until it is active")
	case err != nil:
		return o, fmt.Errorf("reading the node of %s: %w", g.Allocation, err)
	}
	b := &pgx.Batch{}
	b.Queue(lockOpening, slices.Sorted(slices.Values([]string{g.Allocation.String(), g.Principal.String(), instance.String()})))
	b.Queue(countOpen, g.Allocation, g.Principal, instance).QueryRow(func(row pgx.Row) error {
		var ofAllocation, ofUser, lately, here int
		if err := row.Scan(&ofAllocation, &ofUser, &lately, &here); err != nil {
			return fmt.Errorf("counting terminal sessions: %w", err)
		}
		return s.full(g, ofAllocation, ofUser, lately, here)
	})
	b.Queue(insertSession, o.ID, g.Tenant, g.Project, g.Principal, g.Program, g.SignIn, g.SignInEnd, g.Scopes, g.Limited, g.CorrelationID, g.Allocation, o.Node, o.Fence,
		instance, string(g.Purpose), o.Client.Address, o.Client.UserAgent).QueryRow(func(row pgx.Row) error { return row.Scan(&o.CreatedAt) })
	audit.Queue(b, audit.Entry{
		Tenant: g.Tenant, By: g.by(client), Action: "terminal.open", Target: o.URN(s.Naming),
		After: map[string]any{"purpose": g.Purpose, "allocation_id": g.Allocation},
	})
	if err := pg.Commit(ctx, s.DB, b, func() { failpoint.Hit("terminal.open.before_commit") }); err != nil {
		return o, err
	}
	failpoint.Hit("terminal.open.after_commit")
	return o, s.admit(ctx, o)
}

// admit checks the rights of a new session as those of all sessions are checked, and ends it at once without them.
func (s *Service) admit(ctx context.Context, o Opened) error {
	ends, err := s.Ends(ctx, o.Instance, o.ID)
	reason, found := ends[o.ID]
	switch {
	case err == nil && !found:
		reason, err = Lost, errs.New(errs.Unavailable, "the session has ended already")
	case err == nil && reason != "":
		err = errs.New(errs.Forbidden, "the session may not begin: %s", reason)
	case err == nil:
		return nil
	}
	if reason == "" {
		reason = Unavailable
	}
	return errors.Join(err, s.End(ctx, o.Session, Ended{Reason: reason}))
}

func (s *Service) full(g Grant, ofAllocation, ofUser, lately, here int) error {
	most := s.MaxPerInstance
	if most == 0 {
		most = maxInstance
	}
	switch {
	case here >= most:
		return errs.New(errs.Unavailable, "this server has %d open sessions", here).Try("repeat it in a moment")
	case lately >= maxPerMinute:
		return errs.New(errs.ConcurrencyLimitReached, "you have opened %d sessions in a minute", lately).Try("wait a minute")
	}
	return overLimit(s.Limits(g.Tenant, g.Project), ofAllocation, ofUser)
}

// Presented records the certificate of a terminal and the fingerprint of the host key that the node presented.
func (s *Service) Presented(ctx context.Context, session uuid.UUID, serial uint64, hostKey string) error {
	if _, err := s.DB.Exec(ctx, updateLogin, session, int64(serial), hostKey); err != nil { //nolint:gosec // its bits
		return fmt.Errorf("recording the host key of %s: %w", session, err)
	}
	return nil
}

// Ended describes an end.
type Ended struct {
	Reason         Reason
	ExitStatus     *int
	Received, Sent int64
}

// End records an end. A session that has ended before stays as it is.
func (s *Service) End(ctx context.Context, of Session, e Ended) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error { return s.end(ctx, tx, of, e) })
	if err == nil {
		failpoint.Hit("terminal.end.after_commit")
	}
	return err
}

func (s *Service) end(ctx context.Context, tx pgx.Tx, of Session, e Ended) error {
	tag, err := tx.Exec(ctx, endSession, of.ID, string(e.Reason), e.ExitStatus, e.Received, e.Sent)
	if err != nil {
		return fmt.Errorf("ending %s: %w", of.ID, err)
	}
	if tag.RowsAffected() == 0 {
		return nil
	}
	failpoint.Hit("terminal.end.before_audit")
	b := &pgx.Batch{}
	after := map[string]any{
		"reason": e.Reason, "received_bytes": e.Received, "sent_bytes": e.Sent, "seconds": int64(s.Clock.Now().Sub(of.CreatedAt).Seconds()), "allocation_id": of.Allocation,
	}
	if e.ExitStatus != nil {
		after["exit_status"] = *e.ExitStatus
	}
	audit.Queue(b, audit.Entry{Tenant: of.Tenant, By: audit.By{Actor: "system:terminal", CorrelationID: of.CorrelationID}, Action: "terminal.end", Target: of.URN(s.Naming), After: after})
	return tx.SendBatch(ctx, b).Close()
}
