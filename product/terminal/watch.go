package terminal

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Ends reads the rights of all open sessions of a server in one statement, or those of one session. It returns the reason why
// a session must end, or "" for one that goes on.
func (s *Service) Ends(ctx context.Context, instance, only uuid.UUID) (map[uuid.UUID]Reason, error) {
	type verdict struct {
		id     uuid.UUID
		reason Reason
	}
	all, err := pg.List(ctx, s.DB, "rights of terminal sessions", selectRights, func(row pgx.CollectableRow) (v verdict, err error) {
		v.id, v.reason, err = s.verdict(row)
		return v, err
	}, instance, only)
	ends := make(map[uuid.UUID]Reason, len(all))
	for _, v := range all {
		ends[v.id] = v.reason
	}
	return ends, err
}

func (s *Service) verdict(row pgx.CollectableRow) (id uuid.UUID, reason Reason, err error) {
	var (
		wanted                               string
		c                                    identity.Caller
		principal                            uuid.UUID
		program                              bool
		scopes, ofAccount                    []string
		allocated, usable, signedIn, enabled bool
	)
	if err := row.Scan(&id, &wanted, &c.Tenant, &c.Project, &principal, &program, &scopes, &c.Limited, &allocated, &usable, &signedIn, &enabled,
		&c.Role, &c.TenantRole, &c.ProjectRole, &ofAccount); err != nil {
		return id, "", err
	}
	switch {
	case wanted != "":
		return id, Reason(wanted), nil
	case !enabled:
		return id, UserDisabled, nil
	case !signedIn:
		return id, SignedOut, nil
	case !allocated:
		return id, AllocationEnded, nil
	case !usable:
		return id, NodeUnavailable, nil
	}
	// A scope that no longer exists gives no right.
	c.Scopes, _ = policies.ParseScopes(scopes)
	if program {
		most, _ := policies.ParseScopes(ofAccount)
		c.ServiceAccount, c.Scopes = ids.From[ids.ServiceAccount](principal), c.Scopes&most
	} else {
		c.User = ids.From[ids.User](principal)
	}
	if !s.May(c) {
		return id, RightLost, nil
	}
	return id, "", nil
}

// Traffic is the number of bytes of an open session.
type Traffic struct {
	ID             uuid.UUID
	Received, Sent int64
	Connected      bool
}

// Record stores the bytes of open sessions in one statement.
func (s *Service) Record(ctx context.Context, all []Traffic) error {
	of, received, sent, connected := make([]uuid.UUID, len(all)), make([]int64, len(all)), make([]int64, len(all)), make([]bool, len(all))
	for i, t := range all {
		of[i], received[i], sent[i], connected[i] = t.ID, t.Received, t.Sent, t.Connected
	}
	if _, err := s.DB.Exec(ctx, updateBytes, of, received, sent, connected); err != nil {
		return fmt.Errorf("recording the bytes of terminal sessions: %w", err)
	}
	return nil
}

// silence is the age of the last heartbeat after which a server is dead. It closes its own sessions after 5 s without the
// database.
const silence = 15 * time.Second

// Register announces a server before its first session.
func (s *Service) Register(ctx context.Context, instance uuid.UUID, at Instance) error {
	if _, err := s.DB.Exec(ctx, insertInstance, instance, at.Address, at.Key); err != nil {
		return fmt.Errorf("registering a terminal server: %w", err)
	}
	return nil
}

// Beat is the heartbeat of a server. It also ends sessions of servers that are dead. It returns false if the others consider
// this server dead: its sessions are lost.
func (s *Service) Beat(ctx context.Context, instance uuid.UUID) (alive bool, err error) {
	tag, err := s.DB.Exec(ctx, beat, instance)
	if err != nil {
		return true, fmt.Errorf("sending a heartbeat: %w", err)
	}
	if _, err := s.DB.Exec(ctx, deleteSilent, int64(silence/time.Second)); err != nil {
		return true, fmt.Errorf("deleting silent terminal servers: %w", err)
	}
	return tag.RowsAffected() == 1, s.endOrphans(ctx)
}

// Deregister removes a server that has ended its sessions.
func (s *Service) Deregister(ctx context.Context, instance uuid.UUID) error {
	if _, err := s.DB.Exec(ctx, deleteInstance, instance); err != nil {
		return fmt.Errorf("removing a terminal server: %w", err)
	}
	return s.endOrphans(ctx)
}

// orphans limits the sessions of one transaction.
const orphans = 100

func (s *Service) endOrphans(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		all, err := pg.List(ctx, tx, "terminal sessions without a server", selectOrphans, scan, orphans)
		if err != nil {
			return err
		}
		for _, one := range all {
			if err := s.end(ctx, tx, one, Ended{Reason: Lost, Received: one.Received, Sent: one.Sent}); err != nil {
				return err
			}
		}
		return nil
	})
}
