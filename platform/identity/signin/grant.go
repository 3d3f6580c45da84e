package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// HeldTokens are the tokens of the provider that a session stores.
type HeldTokens struct {
	Refresh string `json:"refresh,omitempty"`
	ID      string `json:"id,omitempty"` // names the user to the provider at the sign-out
}

// sealGrant encrypts the tokens for storage. Without a key they are not stored, and a sign-out then ends only the
// local session.
func (s *Service) sealGrant(g HeldTokens, id ids.Session) []byte {
	if g == (HeldTokens{}) || s.Seal == nil {
		return nil
	}
	text, err := json.Marshal(g)
	if err != nil {
		panic(fmt.Sprintf("encoding two texts: %v", err))
	}
	return s.Seal.Seal(text, identity.GrantAt(id))
}

func (s *Service) openGrant(ctx context.Context, sealed []byte, id ids.Session) (g HeldTokens, err error) {
	if sealed == nil || s.Seal == nil {
		return g, nil
	}
	text, err := s.Seal.Open(ctx, sealed, identity.GrantAt(id))
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil {
		return HeldTokens{}, fmt.Errorf("opening the tokens of a session: %w", err)
	}
	return g, nil
}

// revoke revokes the refresh token of an ended session at the provider, and removes it then.
func (s *Service) revoke(ctx context.Context, id ids.Session, refresh string) error {
	if refresh != "" && s.Provider != nil {
		if err := s.Provider.Revoke(ctx, refresh, false); err != nil {
			return err
		}
	}
	if _, err := s.DB.Exec(ctx, removeGrant, id); err != nil {
		return fmt.Errorf("removing a refresh token: %w", err)
	}
	return nil
}

// RevokeEnded revokes the refresh tokens of sessions that have ended, at most limit of them. It returns the number
// that the provider could not be notified of; they are tried again later. A day after the end of its session a token is
// removed in any case.
func (s *Service) RevokeEnded(ctx context.Context, limit int) (failed int, err error) {
	ctx = unscoped(ctx)
	rows, err := s.DB.Query(ctx, claimRevocations, limit)
	if err != nil {
		return 0, fmt.Errorf("finding tokens of ended sessions: %w", err)
	}
	type ended struct {
		ID     ids.Session
		Sealed []byte
		Old    bool
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ended])
	if err != nil {
		return 0, fmt.Errorf("finding tokens of ended sessions: %w", err)
	}
	var last error
	for _, e := range list {
		g, err := s.openGrant(ctx, e.Sealed, e.ID)
		if err != nil {
			g = HeldTokens{} // sealed with a key that is gone: the token expires by itself
		}
		err = s.revoke(ctx, e.ID, g.Refresh)
		if err == nil {
			continue
		}
		failed, last = failed+1, err
		if e.Old {
			last = errors.Join(last, s.revoke(ctx, e.ID, ""))
		}
	}
	return failed, last
}

// SignOutURL returns the address at which the provider ends the session of a browser, or "".
func (s *Service) SignOutURL(ctx context.Context, idToken, back string) string {
	if s.Provider == nil || idToken == "" {
		return ""
	}
	to, err := s.Provider.EndSessionURL(ctx, idToken, back)
	if err != nil {
		return "" // unavailable: its session ends by itself
	}
	return to
}

// notNotified is the error of a sign-out that ended the session here only.
func notNotified(err error) error {
	return errs.New(errs.ProviderFailed, "you are signed out; the identity provider could not be notified").Because(err)
}
