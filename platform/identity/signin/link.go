package signin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// linkFor is enough time to copy a line from a terminal (AUTH-13).
const linkFor = 15 * time.Minute

// Link signs an administrator in, once.
type Link struct {
	Code  string
	Email string // whose it is
	For   time.Duration
}

// FirstAdminLink creates a sign-in code for the administrator with the address; without an address, for
// the oldest administrator. If no user has the address, it creates an administrator. The caller needs no
// other right, because it already has access to the installation's own files.
func (s *Service) FirstAdminLink(ctx context.Context, email string) (link Link, err error) {
	ctx = unscoped(ctx)
	code, hash := identity.NewToken(identity.LinkPrefix)
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		u, err := identity.Administrator(ctx, tx, email)
		if err != nil {
			return err
		}
		link = Link{Code: code, Email: u.Email, For: linkFor}
		b := &pgx.Batch{}
		b.Queue(insertLink, hash[:], u.ID, int64(linkFor/time.Second))
		audit.Queue(b, audit.Entry{By: audit.OnServer("system:first-admin", "gpuaas first-admin"), Action: "user.sign_in_link", Target: s.Naming.Name("", "", "user", u.ID.String()).String()})
		return tx.SendBatch(ctx, b).Close()
	})
	return link, err
}

// UseLink trades a code for a session, once: of those who try at the same time,
// one statement lets one through.
func (s *Service) UseLink(ctx context.Context, code string, o Origin) (started Started, err error) {
	ctx = unscoped(ctx)
	if len(code) != identity.TokenLength || !strings.HasPrefix(code, identity.LinkPrefix) {
		return Started{}, linkGone()
	}
	hash := sha256.Sum256([]byte(code))
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		var user ids.User
		err := tx.QueryRow(ctx, useLink, hash[:]).Scan(&user)
		if errors.Is(err, pgx.ErrNoRows) {
			return linkGone()
		}
		if err != nil {
			return fmt.Errorf("using a sign-in link: %w", err)
		}
		u, err := identity.ReadUser(ctx, tx, user)
		if err != nil {
			return err
		}
		started, err = s.enter(ctx, tx, u, NewSession{User: u.ID, Kind: "browser", Issuer: identity.LocalIssuer, Origin: o, SignIn: identity.SignIn{At: s.Now(), Methods: identity.MethodFirstAdmin}})
		return err
	})
	return started, err
}

func linkGone() error {
	return loginFailed("the code is used, expired or unknown").Try("create a new one: gpuaas first-admin")
}
