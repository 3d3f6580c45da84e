package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

const (
	keyPrefix     = "gpk_" // a personal key
	sessionPrefix = "gpb_" // a browser's session
	// 4 characters and 256 bits in base64url. Anything longer is not looked up.
	tokenLength = 4 + 43
)

// newToken returns a secret and what is stored of it. 256 random bits cannot be
// guessed, so a fast hash is enough.
func newToken(prefix string) (token string, hash [32]byte) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails: it ends the process instead
	token = prefix + base64.RawURLEncoding.EncodeToString(secret)
	return token, sha256.Sum256([]byte(token))
}

// Authenticate says who holds the token: a personal key or a browser session.
func (s *Service) Authenticate(ctx context.Context, token string) (Caller, error) {
	if token == "" {
		return Caller{}, errs.New(errs.TokenMissing, "this request needs a token")
	}
	if len(token) != tokenLength {
		return Caller{}, tokenInvalid()
	}
	hash := sha256.Sum256([]byte(token))
	now := s.Clock.Now()
	caller, epoch, found := s.tokens.get(hash, now)
	if found {
		return caller, nil
	}
	caller, left, err := s.lookUp(ctx, token, hash)
	if err != nil {
		return Caller{}, err
	}
	s.tokens.put(hash, caller, now.Add(min(left, cachedFor)), epoch)
	return caller, nil
}

// lookUp returns the caller and how long the token still lives by the database's
// clock, so that servers with different clocks agree on its end.
func (s *Service) lookUp(ctx context.Context, token string, hash [32]byte) (Caller, time.Duration, error) {
	statement := selectKeyHolder
	if strings.HasPrefix(token, sessionPrefix) {
		statement = selectSessionHolder
	}
	var c Caller
	var tenant *uuid.UUID
	var seconds float64
	err := s.DB.QueryRow(unscoped(ctx), statement, hash[:]).Scan(&c.User.UUID, &c.Email, &c.Name, &c.Role,
		&tenant, &c.TenantName, &c.TenantRole, &seconds)
	if errors.Is(err, pgx.ErrNoRows) {
		return Caller{}, 0, tokenInvalid()
	}
	if err != nil {
		return Caller{}, 0, fmt.Errorf("looking up a token: %w", err)
	}
	if seconds <= 0 {
		return Caller{}, 0, errs.New(errs.TokenExpired, "the token has expired").Try("sign in again")
	}
	if tenant != nil {
		c.Tenant = ids.From[ids.Tenant](*tenant)
	}
	// Compared as seconds: a key without end would overflow a Duration.
	return c, time.Duration(min(seconds, cachedFor.Seconds()) * float64(time.Second)), nil
}

func tokenInvalid() error {
	return errs.New(errs.TokenInvalid, "the token is not valid").Try("sign in again, or make a new key")
}

// NewKey makes a personal key; its text is shown once and kept nowhere. A ttl of
// zero makes a key without end.
func (s *Service) NewKey(ctx context.Context, q pg.Queryer, user ids.User, name string, ttl time.Duration) (token string, err error) {
	token, hash := newToken(keyPrefix)
	if _, err := q.Exec(ctx, insertKey, uuid.Must(uuid.NewV7()), user.UUID, name, hash[:], ttl.Seconds()); err != nil {
		return "", fmt.Errorf("keeping a key: %w", err)
	}
	return token, nil
}

// RevokeKeys ends the user's keys of that name, here at once and in other
// processes within cachedFor.
func (s *Service) RevokeKeys(ctx context.Context, q pg.Queryer, user ids.User, name string) error {
	if _, err := q.Exec(ctx, revokeKeys, user.UUID, name); err != nil {
		return fmt.Errorf("revoking keys: %w", err)
	}
	s.tokens.forget()
	return nil
}

// Session starts a browser session of the user and returns the cookie's value.
func (s *Service) Session(ctx context.Context, user ids.User, ttl time.Duration) (token string, err error) {
	token, hash := newToken(sessionPrefix)
	if _, err := s.DB.Exec(unscoped(ctx), insertSession, uuid.Must(uuid.NewV7()), user.UUID, hash[:], ttl.Seconds()); err != nil {
		return "", fmt.Errorf("starting a session: %w", err)
	}
	return token, nil
}

// EndSession ends it; an unknown one is ended already.
func (s *Service) EndSession(ctx context.Context, token string) error {
	hash := sha256.Sum256([]byte(token))
	if _, err := s.DB.Exec(unscoped(ctx), endSession, hash[:]); err != nil {
		return fmt.Errorf("ending a session: %w", err)
	}
	s.tokens.forget()
	return nil
}
