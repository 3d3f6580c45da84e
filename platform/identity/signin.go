package identity

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// SignIn creates or updates the user that an issuer has asserted, with one audit row.
func (s *Service) SignIn(ctx context.Context, v Verified, o Origin) (User, error) {
	ctx = unscoped(ctx)
	var a arrival
	err := s.signing(ctx, func(tx pgx.Tx) (err error) {
		if a, err = s.arrive(ctx, tx, v); err != nil {
			return err
		}
		return s.noteNow(ctx, tx, a.caller(o), "user.sign_in", a.user.ref(), a.changed)
	})
	return s.arrived(a, err)
}

// SignInSession does the same and starts a session with it, in one transaction.
func (s *Service) SignInSession(ctx context.Context, v Verified, n NewSession) (started Started, err error) {
	ctx = unscoped(ctx)
	var a arrival
	err = s.signing(ctx, func(tx pgx.Tx) (err error) {
		if a, err = s.arrive(ctx, tx, v); err != nil {
			return err
		}
		n.Issuer = v.Issuer
		started, err = s.begin(ctx, tx, a, n)
		return err
	})
	_, err = s.arrived(a, err)
	return started, err
}

// arrival is a person at their sign-in, and what it has changed of them.
type arrival struct {
	user    User
	changed fields
}

// caller is the person as who does what the sign-in does.
func (a arrival) caller(o Origin) Caller {
	return Caller{User: a.user.ID, CorrelationID: o.CorrelationID}
}

// arrived has a changed role felt at once.
func (s *Service) arrived(a arrival, err error) (User, error) {
	if err != nil {
		return User{}, err
	}
	if len(a.changed) > 0 {
		s.RightsChanged()
	}
	return a.user, nil
}

// signing runs one transaction of a sign-in. Two first sign-ins of a user may run concurrently; the
// slower one runs again.
func (s *Service) signing(ctx context.Context, do func(pgx.Tx) error) (err error) {
	for range tries {
		if err = pgx.BeginFunc(ctx, s.DB, do); !errors.Is(err, errRaced) {
			return err
		}
	}
	return errs.New(errs.Conflict, "another request signs this user in").Try("sign in again")
}

// arrive finds or creates the user, applies the provider's role where it decides roles, and accepts a
// pending invitation of a user without a tenant.
func (s *Service) arrive(ctx context.Context, tx pgx.Tx, v Verified) (arrival, error) {
	email := ""
	if v.EmailVerified {
		email = v.Email
	}
	invited, err := s.invited(ctx, tx, email)
	if err != nil {
		return arrival{}, err
	}
	known, linked, err := s.find(ctx, tx, v, email)
	if err != nil {
		return arrival{}, err
	}
	a := arrival{user: known, changed: fields{}}
	if known.ID == (ids.User{}) {
		err = a.add(ctx, tx, v, email)
	} else {
		err = a.update(ctx, tx, v, email, linked)
	}
	if err == nil && a.user.Tenant == (ids.Tenant{}) && invited.id != uuid.Nil {
		err = a.join(ctx, tx, invited)
	}
	return a, err
}

// find locks the user with the issuer's subject or the verified address: one user at most. A local user,
// whom an administrator created before the first sign-in, is linked by the address. A user of another
// issuer is not the same user.
func (s *Service) find(ctx context.Context, tx pgx.Tx, v Verified, email string) (u User, linked bool, err error) {
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
	case len(people) > 1, !people[0].Subject && people[0].Issuer != localIssuer:
		return u, false, loginFailed("the e-mail address %s belongs to a user of another identity provider", email).
			Try("sign in the way you did before, or contact an administrator")
	}
	if u, err = queryOne(ctx, tx, "user", selectUser, scanUser, people[0].ID); err == nil && u.DisabledAt != nil {
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
	u := User{ID: ids.New[ids.User](), Email: email, Name: v.Name, Role: "user", Issuer: v.Issuer, RoleFrom: "platform", Version: 1}
	if u.Name = strings.TrimSpace(u.Name); u.Name == "" || len(u.Name) > maxName || strings.ContainsFunc(u.Name, isControl) {
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
		return errRaced
	}
	a.user = u
	a.changed["email"], a.changed["role"] = u.Email, u.Role
	return nil
}

// update records the sign-in, and applies the values that the provider decides.
func (a *arrival) update(ctx context.Context, tx pgx.Tx, v Verified, email string, linked bool) error {
	old := a.user
	u := &a.user
	if linked {
		u.Issuer, a.changed["issuer"] = v.Issuer, v.Issuer
	}
	if email != "" && email != u.Email {
		u.Email, a.changed["email"] = email, email
	}
	u.RoleFrom = "platform"
	if v.MapsRoles {
		u.Role, u.RoleFrom = v.Role, "provider"
	}
	if u.Role != old.Role {
		a.changed["role"] = u.Role
	}
	if err := tx.QueryRow(ctx, updatePerson, u.ID, u.Issuer, v.Subject, u.Email, u.Role, u.RoleFrom).Scan(&u.Version); err != nil {
		return fmt.Errorf("noting a sign-in: %w", err)
	}
	return nil
}

// join accepts an invitation. One that was revoked meanwhile is none.
func (a *arrival) join(ctx context.Context, tx pgx.Tx, i invitation) error {
	tag, err := tx.Exec(ctx, acceptInvitation, i.id)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	if tag, err = tx.Exec(ctx, joinTenant, i.tenant, a.user.ID, i.role); err != nil {
		return fmt.Errorf("accepting an invitation: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return errRaced // a concurrent change made the user a member
	}
	a.changed["tenant"], a.changed["tenant_role"] = i.tenant.String(), i.role
	a.user, err = queryOne(ctx, tx, "user", selectUser, scanUser, a.user.ID)
	return err
}

type invitation struct {
	id     uuid.UUID
	tenant ids.Tenant
	role   string
}

// invited finds an invitation of this address and locks its tenant. The tenant is always locked before
// the user.
func (*Service) invited(ctx context.Context, tx pgx.Tx, email string) (i invitation, err error) {
	if email == "" {
		return i, nil
	}
	err = tx.QueryRow(ctx, selectOwnInvitation, email).Scan(&i.id, &i.tenant, &i.role)
	if errors.Is(err, pgx.ErrNoRows) {
		return invitation{}, nil
	}
	if err == nil {
		_, err = tx.Exec(ctx, lockTenant, i.tenant)
	}
	if err != nil {
		return i, fmt.Errorf("looking for an invitation: %w", err)
	}
	return i, nil
}

// noteNow writes the audit row of a transaction that is no batch.
func (s *Service) noteNow(ctx context.Context, tx pgx.Tx, by Caller, action string, of resourceRef, after fields) error {
	b := &pgx.Batch{}
	s.note(b, by, action, of, nil, after)
	return tx.SendBatch(ctx, b).Close()
}
