package terminal

import (
	"context"
	"crypto/sha256"
	"errors"
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
	"github.com/gpuaas/gpuaas/product/allocation"
)

// Token is a new token. Only the response of its creation has it.
type Token struct {
	Token     string
	ExpiresAt time.Time
	URL       string
	Login     string
}

// TokenRequest contains the fields of a request. Origin is that of the browser page; empty for other clients.
type TokenRequest struct {
	Purpose Purpose
	Resumes uuid.UUID
	Origin  string
}

// CreateToken creates a token for an active allocation of the caller. It needs no recent sign-in, and ends at the latest with
// the session, API key or credential of the caller.
func (s *Service) CreateToken(ctx context.Context, ch identity.Change[Token], a allocation.Allocation, r TokenRequest) (Token, error) {
	h, err := holderOf(ch.Caller)
	if err != nil {
		return Token{}, err
	}
	h.Tenant, h.Project = a.Tenant, a.Project // an operator acts in the allocation's tenant
	made, err := ch.Apply(ctx, s.Identity, func() (Token, func(*pgx.Batch), error) {
		if a.State != allocation.Active {
			return Token{}, nil, errs.New(errs.AllocationNotActive, "the allocation is %s and accepts no logins", a.State).Try("wait until it is active")
		}
		if r.Purpose == SSH {
			if err := s.RejectUnrecorded(h.Tenant, h.Project); err != nil {
				return Token{}, nil, err
			}
		}
		end, err := s.tokenEnd(ctx, h, a, r)
		if err != nil {
			return Token{}, nil, err
		}
		token, hash := identity.NewToken(Prefix)
		made := Token{Token: token, ExpiresAt: end, URL: s.Address() + Path(r.Purpose, a.ID), Login: a.Login}
		return made, func(b *pgx.Batch) {
			b.Queue(insertToken, hash[:], h.Tenant, h.Project, a.ID, h.Principal, h.Program, h.SignIn, h.SignInEnd, h.Scopes, h.Limited, string(r.Purpose), r.Origin,
				pg.NullID(r.Resumes), h.CorrelationID, end)
			audit.Queue(b, audit.Entry{
				Tenant: a.Tenant, By: ch.Caller.Cause(), Action: "terminal.token", Target: a.URN(s.Naming),
				After: map[string]any{"purpose": r.Purpose, "expires_at": end, "origin": r.Origin, "resumes": pg.NullID(r.Resumes)},
			})
		}, nil
	})
	if err == nil {
		failpoint.Hit("terminal.token.after_commit")
	}
	return made, err
}

// Path returns the path of the websocket.
func Path(p Purpose, a ids.Allocation) string {
	if p == SSH {
		return "/ws/ssh/" + a.String()
	}
	return "/ws/terminal/" + a.String()
}

// tokenEnd returns the end of a token for this request, and checks the limits.
func (s *Service) tokenEnd(ctx context.Context, h Holder, a allocation.Allocation, r TokenRequest) (end time.Time, err error) {
	limits := s.Limits(h.Tenant, h.Project)
	var tokens, sessions, own int
	err = s.DB.QueryRow(ctx, selectTokenEnd, h.SignIn, h.Principal, int64(limits.TokenLife/time.Second), h.SignInEnd, a.ID).Scan(&end, &tokens, &sessions, &own)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return end, errs.New(errs.TokenExpired, "the sign-in has ended").Try("sign in again")
	case err != nil:
		return end, fmt.Errorf("reading the limits of terminals: %w", err)
	case tokens >= maxTokens:
		return end, limit("you have %d unused terminal tokens", tokens)
	}
	if r.Resumes == uuid.Nil {
		return end, overLimit(limits, sessions, own)
	}
	var resumable bool
	if err := s.DB.QueryRow(ctx, selectResumable, r.Resumes, a.ID, h.Principal).Scan(&resumable); err != nil {
		return end, fmt.Errorf("reading a terminal session: %w", err)
	}
	if !resumable || r.Purpose != Shell {
		return end, errs.New(errs.NotFound, "the allocation has no such open terminal of yours").At("session_id").Try("open a new terminal")
	}
	return end, nil
}

func limit(format string, n int) error {
	return errs.New(errs.ConcurrencyLimitReached, format, n).Try("end one of them: gpuaas terminal-session list")
}

func overLimit(limits Limits, ofAllocation, ofUser int) error {
	switch {
	case ofAllocation >= limits.PerAllocation:
		return limit("the allocation has %d open sessions", ofAllocation)
	case ofUser >= maxPerUser:
		return limit("you have %d open sessions", ofUser)
	}
	return nil
}

// Use is the use of a token.
type Use struct {
	Token      string
	Purpose    Purpose
	Allocation ids.Allocation
	Origin     string
}

// Grant contains the rights of a token.
type Grant struct {
	Holder

	Allocation ids.Allocation
	Purpose    Purpose
	Origin     string
	Resumes    uuid.UUID
}

// Redeem consumes a token. A use that fails consumes it too, so that a token that leaked is of no use afterwards.
func (s *Service) Redeem(ctx context.Context, u Use) (g Grant, err error) {
	hash := sha256.Sum256([]byte(u.Token))
	var purpose string
	var resumes *uuid.UUID
	var valid bool
	err = s.DB.QueryRow(ctx, redeemToken, hash[:]).Scan(&g.Tenant, &g.Project, &g.Allocation, &g.Principal, &g.Program, &g.SignIn, &g.SignInEnd, &g.Scopes, &g.Limited,
		&purpose, &g.Origin, &resumes, &g.CorrelationID, &valid)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Grant{}, fmt.Errorf("reading a terminal token: %w", err)
	}
	failpoint.Hit("terminal.redeem.after_commit")
	if g.Purpose = Purpose(purpose); resumes != nil {
		g.Resumes = *resumes
	}
	switch {
	case err != nil, !valid, g.Allocation != u.Allocation, g.Purpose != u.Purpose:
		return Grant{}, errs.New(errs.TerminalTokenInvalid, "the terminal token was used, has expired, or is for something else").Try("create another one")
	case g.Origin != u.Origin:
		return Grant{}, errs.New(errs.OriginNotAllowed, "the terminal token belongs to another origin").At("Origin").Try("create the token in the page that uses it")
	}
	return g, nil
}

// Consume deletes a token that a client has sent where tokens do not belong.
func (s *Service) Consume(ctx context.Context, token string) error {
	hash := sha256.Sum256([]byte(token))
	rows, err := s.DB.Query(ctx, redeemToken, hash[:])
	if err != nil {
		return fmt.Errorf("deleting a terminal token: %w", err)
	}
	rows.Close()
	return rows.Err()
}
