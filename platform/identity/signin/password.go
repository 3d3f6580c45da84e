package signin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
	"github.com/gpuaas/gpuaas/policies"
)

const (
	minPassword = 12   // characters; NIST SP 800-63B requires 8, and for 15 where it is alone
	maxPassword = 1024 // bytes: longer than any typed password
)

// PersonalLogin signs in with a password, where the platform allows it. Who does
// not exist, is disabled, or has no password is answered like a wrong password,
// after the same work.
func (s *Service) PersonalLogin(ctx context.Context, email, password, kind string, o Origin) (Started, error) {
	ctx = unscoped(ctx)
	if err := s.personal(); err != nil {
		return Started{}, err
	}
	u, hash, err := s.passwordOf(ctx, email)
	if err != nil {
		return Started{}, err
	}
	right, weak, err := s.hashing.check(ctx, password[:min(len(password), maxPassword)], hash)
	switch {
	case err != nil:
		return Started{}, fmt.Errorf("checking a password: %w", err)
	case !right || u.DisabledAt != nil || len(password) > maxPassword:
		return Started{}, loginFailed("the e-mail address or the password is wrong")
	}
	stronger := hash
	if weak {
		if stronger, err = s.hashing.make(ctx, password); err != nil {
			return Started{}, fmt.Errorf("hashing a password: %w", err)
		}
	}
	var started Started
	err = s.signing(ctx, func(tx pgx.Tx) error {
		if stronger != hash {
			if _, err := tx.Exec(ctx, rehashPassword, u.ID, stronger, hash); err != nil {
				return fmt.Errorf("keeping a password: %w", err)
			}
		}
		started, err = s.enter(ctx, tx, u, NewSession{User: u.ID, Kind: kind, Issuer: identity.LocalIssuer, Origin: o, SignIn: identity.SignIn{At: s.Now(), Methods: "pwd"}})
		return err
	})
	return started, err
}

func (s *Service) personal() error {
	if s.PolicyFor(identity.Caller{}).Bool(policies.AuthPersonalLoginEnabled) {
		return nil
	}
	return errs.New(errs.NotFound, "sign-in with a password is disabled").Try("sign in with your provider")
}

// passwordOf returns the user with this address and the password hash. If none exists, it returns
// absentHash.
func (s *Service) passwordOf(ctx context.Context, email string) (identity.User, string, error) {
	u, err := identity.ReadUserByEmail(ctx, s.DB, strings.ToLower(strings.TrimSpace(email)))
	if errs.CodeOf(err) == errs.NotFound {
		u, err = identity.User{}, nil // one query less would reveal that the user does not exist
	}
	if err != nil {
		return identity.User{}, "", err
	}
	hash, err := s.hashOf(ctx, u)
	if hash == "" {
		hash = absentHash
	}
	return u, hash, err
}

func (s *Service) hashOf(ctx context.Context, u identity.User) (hash string, err error) {
	if err = s.DB.QueryRow(ctx, passwordOf, u.ID).Scan(&hash); err != nil {
		return "", fmt.Errorf("reading a password: %w", err)
	}
	return hash, nil
}

// SetPassword sets the password of the caller. A current password must be presented; a first one needs a
// recent sign-in. All other sessions of the user end, and with endKeys the API keys with what they have
// created, because a thief of the old password may have opened or created one. The response is not stored
// under an idempotency key, because the stored request hash would be a fast hash of the password.
func (s *Service) SetPassword(ctx context.Context, c identity.Caller, old, fresh string, endKeys bool) error {
	ctx = pg.WithScope(ctx, c.Scope(false))
	if err := s.personal(); err != nil {
		return err
	}
	u, err := s.UserByID(ctx, c.User)
	if err != nil {
		return err
	}
	if err := checkPassword(fresh, u.Email); err != nil {
		return err
	}
	have, err := s.hashOf(ctx, u)
	if err != nil {
		return err
	}
	if have == "" {
		if err := s.Recent(c); err != nil {
			return err
		}
	} else {
		right, _, err := s.hashing.check(ctx, old[:min(len(old), maxPassword)], have)
		if err != nil {
			return fmt.Errorf("checking a password: %w", err)
		}
		if !right {
			return loginFailed("the present password is wrong").At("current_password")
		}
	}
	hash, err := s.hashing.make(ctx, fresh)
	if err != nil {
		return fmt.Errorf("hashing a password: %w", err)
	}
	// The SSH keys that a credential of the keys has added belong to its service account, which the scope of
	// a user does not show.
	err = pgx.BeginFunc(unscoped(ctx), s.DB, func(tx pgx.Tx) error { return s.putPassword(ctx, tx, c, u, have, hash, endKeys) })
	if errors.Is(err, identity.ErrRaced) {
		return errs.New(errs.Conflict, "the password was changed meanwhile")
	}
	if err == nil {
		s.RightsChanged()
	}
	return err
}

// putPassword replaces the password that was read, and ends the other sessions of the user, and with endKeys
// the API keys.
func (s *Service) putPassword(ctx context.Context, tx pgx.Tx, c identity.Caller, u identity.User, have, hash string, endKeys bool) error {
	b, ended := &pgx.Batch{}, revocation.Ended{}
	identity.QueueLockUser(b, u.ID)
	b.Queue(putPassword, u.ID, hash, have).Exec(pg.OrElse(identity.ErrRaced))
	b.Queue(endOthers, u.ID, c.Session)
	if endKeys {
		ended.QueueKeys(b, u.ID, nil)
	}
	s.Note(b, c, "user.password", u.Ref(), nil, audit.Fields{"end_api_keys": endKeys})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	return ended.Follow(ctx, tx, s.Rekey)
}

func checkPassword(password, email string) error {
	switch {
	case utf8.RuneCountInString(password) < minPassword || len(password) > maxPassword || !utf8.ValidString(password):
		return errs.Invalid("password", "must have at least %d characters and at most %d bytes", minPassword, maxPassword)
	case strings.EqualFold(password, email):
		return errs.Invalid("password", "must not be your e-mail address")
	}
	return nil
}
