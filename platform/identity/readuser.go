package identity

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// ReadUser reads a user in the caller's transaction.
func ReadUser(ctx context.Context, q pg.Queryer, id ids.User) (User, error) {
	return pg.One(ctx, q, "user", selectUser, scanUser, id)
}

// ReadUserByEmail reads the user with an e-mail address in lower case.
func ReadUserByEmail(ctx context.Context, q pg.Queryer, email string) (User, error) {
	return pg.One(ctx, q, "user", selectPerson, scanUser, email)
}

// Administrator returns the enabled administrator with the address; without an address, the oldest one.
// If no user has the address, it creates an administrator.
func Administrator(ctx context.Context, tx pgx.Tx, email string) (u User, err error) {
	if email == "" {
		u, err = pg.One(ctx, tx, "user", selectFirstAdmin, scanUser)
		if errs.CodeOf(err) == errs.NotFound {
			return u, errs.New(errs.NotFound, "no administrator exists").Try("name one: gpuaas first-admin --email ADDRESS")
		}
		return u, err
	}
	if email, err = address("email", email); err != nil {
		return u, err
	}
	if _, err := tx.Exec(ctx, insertAdmin, ids.New[ids.User](), email); err != nil {
		return u, fmt.Errorf("making an administrator: %w", err)
	}
	u, err = ReadUserByEmail(ctx, tx, email)
	switch {
	case err != nil:
		return u, err
	case u.Role != "admin":
		return u, errs.New(errs.Conflict, "%s is no administrator", email).Try("name an administrator, or a new user")
	case u.DisabledAt != nil:
		return u, errs.New(errs.Conflict, "%s is disabled", email)
	}
	return u, nil
}

// UserHasEmail reports whether an e-mail address is that of a user.
func (s *Service) UserHasEmail(ctx context.Context, email string) (found bool, err error) {
	if err := s.DB.QueryRow(unscoped(ctx), userHasEmail, email).Scan(&found); err != nil {
		return false, fmt.Errorf("finding a user by e-mail address: %w", err)
	}
	return found, nil
}
