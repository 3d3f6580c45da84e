package signin

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
)

// SignInUser creates or updates the user that an issuer has asserted, with one audit row.
func (s *Service) SignInUser(ctx context.Context, v Verified, o Origin) (identity.User, error) {
	ctx = unscoped(ctx)
	var a arrival
	err := s.signing(ctx, func(tx pgx.Tx) (err error) {
		if a, err = s.arrive(ctx, tx, v, true); err != nil {
			return err
		}
		if err := s.Strong(a.user.Role, v.SignIn); err != nil {
			return err
		}
		return s.noteNow(ctx, tx, a.caller(o), "user.sign_in", a.user.Ref(), a.changed)
	})
	return s.arrived(a, err)
}

// SignInSession does what SignInUser does and starts a session with it, in one transaction.
func (s *Service) SignInSession(ctx context.Context, v Verified, n NewSession) (started Started, err error) {
	ctx = unscoped(ctx)
	var a arrival
	err = s.signing(ctx, func(tx pgx.Tx) (err error) {
		if a, err = s.arrive(ctx, tx, v, true); err != nil {
			return err
		}
		n.Issuer, n.SignIn = v.Issuer, v.SignIn
		started, err = s.begin(ctx, tx, a, n)
		return err
	})
	_, err = s.arrived(a, err)
	return started, err
}

// arrival is a person at their sign-in, and what it has changed of them.
type arrival struct {
	user    identity.User
	changed audit.Fields
}

// caller is the person as who does what the sign-in does.
func (a arrival) caller(o Origin) identity.Caller {
	return o.caller(a.user.ID)
}

// arrived has a changed role felt at once.
func (s *Service) arrived(a arrival, err error) (identity.User, error) {
	if err != nil {
		return identity.User{}, err
	}
	if len(a.changed) > 0 {
		s.RightsChanged()
	}
	return a.user, nil
}

// tries is the number of attempts of a sign-in that a concurrent first sign-in overtakes.
const tries = 5

// signing runs one transaction of a sign-in. Two first sign-ins of a user may run concurrently; the
// slower one runs again.
func (s *Service) signing(ctx context.Context, do func(pgx.Tx) error) (err error) {
	for range tries {
		if err = pgx.BeginFunc(ctx, s.DB, do); !errors.Is(err, identity.ErrRaced) {
			return err
		}
	}
	return errs.New(errs.Conflict, "another request signs this user in").Try("sign in again")
}

// arrive finds or creates the user, and applies the provider's role where it decides roles. A check of a session is no
// sign-in: it writes only what has changed.
func (s *Service) arrive(ctx context.Context, tx pgx.Tx, v Verified, signIn bool) (arrival, error) {
	email := ""
	if v.EmailVerified {
		email = v.Email
	}
	known, linked, err := s.find(ctx, tx, v, email)
	if err != nil {
		return arrival{}, err
	}
	a := arrival{user: known, changed: audit.Fields{}}
	if known.ID == (ids.User{}) {
		err = a.add(ctx, tx, v, email)
	} else {
		err = a.update(ctx, tx, v, email, linked, signIn)
	}
	if err == nil && known.Role != "user" && a.user.Role == "user" && known.ID == a.user.ID {
		err = s.noteDemoted(ctx, tx, known.ID)
	}
	return a, err
}

// noteDemoted writes the event that the provider has removed the role of a user.
func (s *Service) noteDemoted(ctx context.Context, tx pgx.Tx, user ids.User) error {
	b := &pgx.Batch{}
	s.NoteLost(b, identity.Caller{}, user, identity.Resource{Kind: "user", ID: user.String()}, revocation.AccessLost{Scope: "platform", Reason: revocation.RoleRemoved})
	return tx.SendBatch(ctx, b).Close()
}

// find locks the user with the issuer's subject or the verified address: one user at most. A local user,
// whom an administrator created before the first sign-in, is linked by the address. A user of another
// issuer is not the same user.
func (s *Service) find(ctx context.Context, tx pgx.Tx, v Verified, email string) (u identity.User, linked bool, err error) {
	rows, err := tx.Query(ctx, lockPeople, v.Issuer, v.Subject, email)
	if err != nil {
		return u, false, fmt.Errorf("looking for a person: %w", err)
	}
	type row struct {
		ID      ids.User
		Issuer  string
		Subject bool // is that of the token
	}
	people, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	switch {
	case err != nil:
		return u, false, fmt.Errorf("looking for a person: %w", err)
	case len(people) == 0 && email == "":
		return u, false, loginFailed("the sign-in provider has not verified your e-mail address").Try("verify the address at the provider, and sign in again")
	case len(people) == 0:
		return u, false, nil
	case len(people) > 1, !people[0].Subject && people[0].Issuer != identity.LocalIssuer:
		return u, false, loginFailed("the e-mail address %s belongs to a user of another identity provider", email).
			Try("sign in the way you did before, or contact an administrator")
	}
	if u, err = identity.ReadUser(ctx, tx, people[0].ID); err == nil && u.DisabledAt != nil {
		err = disabled()
	}
	return u, !people[0].Subject, err
}

func loginFailed(format string, args ...any) *errs.Error {
	return errs.New(errs.LoginFailed, format, args...)
}

func disabled() error { return loginFailed("the user is disabled").Try("contact an administrator") }

// add makes a person who was never here.
func (a *arrival) add(ctx context.Context, tx pgx.Tx, v Verified, email string) error {
	u := identity.User{ID: ids.New[ids.User](), Email: email, Role: "user", Issuer: v.Issuer, RoleFrom: "platform", Version: 1}
	var err error
	if u.Name, err = identity.CheckText("name", v.Name, 1, identity.MaxName); err != nil {
		u.Name = email
	}
	if v.MapsRoles {
		u.Role, u.RoleFrom = v.Role, "provider"
	}
	tag, err := tx.Exec(ctx, insertPerson, u.ID, u.Issuer, v.Subject, u.Email, u.Name, u.Role, u.RoleFrom)
	switch {
	case err != nil:
		return fmt.Errorf("adding a person: %w", err)
	case tag.RowsAffected() == 0:
		return identity.ErrRaced
	}
	a.user = u
	a.changed["created"], a.changed["role"] = true, u.Role
	return nil
}

// update records the sign-in, and applies the values that the provider decides.
func (a *arrival) update(ctx context.Context, tx pgx.Tx, v Verified, email string, linked, signIn bool) error {
	old := a.user
	u := &a.user
	if linked {
		u.Issuer, a.changed["issuer"] = v.Issuer, v.Issuer
	}
	if email != "" && email != u.Email {
		u.Email, a.changed["email"] = email, audit.Personal
	}
	u.RoleFrom = "platform"
	if v.MapsRoles {
		u.Role, u.RoleFrom = v.Role, "provider"
	}
	if u.Role != old.Role {
		a.changed["role"] = u.Role
	}
	if u.RoleFrom != old.RoleFrom {
		a.changed["role_from"] = u.RoleFrom
	}
	if !signIn && len(a.changed) == 0 {
		return nil
	}
	if err := tx.QueryRow(ctx, updatePerson, u.ID, u.Issuer, v.Subject, u.Email, u.Role, u.RoleFrom).Scan(&u.Version); err != nil {
		return fmt.Errorf("noting a sign-in: %w", err)
	}
	return nil
}

// noteNow writes the audit row of a transaction that is no batch.
func (s *Service) noteNow(ctx context.Context, tx pgx.Tx, by identity.Caller, action string, of identity.Resource, after audit.Fields) error {
	b := &pgx.Batch{}
	s.Note(b, by, action, of, nil, after)
	return tx.SendBatch(ctx, b).Close()
}
