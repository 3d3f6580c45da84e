package signin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// unconfirmedFor limits the time for which a session continues while the provider does not respond.
const unconfirmedFor = time.Hour

// checkWithin limits a check: one request to the provider, and one transaction.
const checkWithin = 15 * time.Second

func (s *Service) confirmedFor() time.Duration {
	return time.Duration(s.PolicyFor(identity.Caller{}).Int(policies.AuthProviderCheckMinutes)) * time.Minute
}

// isDue reports whether the provider must confirm a session.
func (s *Service) isDue(unconfirmed time.Duration) bool {
	return s.Provider != nil && unconfirmed >= s.confirmedFor()
}

// confirm makes the provider confirm the user of a session that it has not confirmed for auth.provider_check_minutes.
// A user whom the provider has disabled, signed out or given another role loses the session or the rights with the next
// request. One of the parallel requests of a session sends the check; the others continue.
func (s *Service) confirm(ctx context.Context, token string, id ids.Session, since time.Duration) error {
	tag, err := s.DB.Exec(ctx, claimCheck, id)
	if err != nil {
		return fmt.Errorf("checking a session: %w", err)
	}
	if tag.RowsAffected() > 0 {
		// A request that its browser gives up must not lose a refresh token that the provider has rotated.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkWithin)
		defer cancel()
		_, err = s.RefreshSession(ctx, token, Origin{})
	}
	switch code := errs.CodeOf(err); {
	case code == errs.TokenInvalid || code == errs.LoginFailed || code == errs.StepUpRequired:
		return err
	case since > s.confirmedFor()+unconfirmedFor:
		return errs.New(errs.ProviderFailed, "the sign-in provider has not confirmed this session for %s", since.Round(time.Minute)).
			Try("repeat the request when the provider is back").Because(err)
	}
	return nil
}

// RefreshSession renews the session's identity at the provider and applies the provider's role. A
// rejection by the provider ends the session.
func (s *Service) RefreshSession(ctx context.Context, token string, o Origin) (identity.User, error) {
	ctx = unscoped(ctx)
	own, err := s.session(ctx, token)
	if err != nil {
		return identity.User{}, err
	}
	if own == nil {
		return identity.User{}, tokenInvalid()
	}
	held, err := s.openGrant(ctx, own.sealed, own.id)
	if err != nil {
		return identity.User{}, err
	}
	if held.Refresh == "" || s.Provider == nil { // no provider can confirm this user
		return s.UserByID(ctx, own.user)
	}
	g, err := s.Provider.Refresh(ctx, held.Refresh, false)
	if errs.CodeOf(err) == errs.TokenInvalid {
		return s.endRejected(ctx, token, own, err)
	}
	if err != nil {
		return identity.User{}, err
	}
	g.Refresh, g.ID = cmp.Or(g.Refresh, held.Refresh), cmp.Or(g.ID, held.ID)
	u, err := s.renew(ctx, own, g, o)
	if errs.CodeOf(err) == errs.LoginFailed { // the provider reports another user
		err = errors.Join(err, s.end(ctx, own, identity.Caller{User: own.user}))
	}
	return u, err
}

// endRejected ends a session whose refresh token the provider has rejected, unless a concurrent request
// has just exchanged it for a new one.
func (s *Service) endRejected(ctx context.Context, token string, own *ownSession, refused error) (identity.User, error) {
	again, err := s.session(ctx, token)
	switch {
	case err != nil:
		return identity.User{}, err
	case again != nil && string(again.sealed) != string(own.sealed):
		return s.UserByID(ctx, own.user)
	case again != nil:
		if err := s.end(ctx, own, identity.Caller{User: own.user}); err != nil {
			return identity.User{}, err
		}
	}
	return identity.User{}, refused
}

func (s *Service) renew(ctx context.Context, own *ownSession, g Grant, o Origin) (identity.User, error) {
	var a arrival
	err := s.signing(ctx, func(tx pgx.Tx) (err error) {
		if a, err = s.arrive(ctx, tx, g.Verified, false); err != nil {
			return err
		}
		if a.user.ID != own.user {
			return loginFailed("the identity provider now reports another user")
		}
		if _, err := tx.Exec(ctx, storeGrant, own.id, s.sealGrant(HeldTokens{Refresh: g.Refresh, ID: g.ID}, own.id)); err != nil {
			return fmt.Errorf("storing the tokens of a session: %w", err)
		}
		if len(a.changed) == 0 {
			return nil
		}
		return s.noteNow(ctx, tx, a.caller(o), "session.refresh", identity.Resource{Tenant: a.user.Tenant, Kind: "session", ID: own.id.String()}, a.changed)
	})
	return s.arrived(a, err)
}
