package identity

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
)

// User is a user. RoleFrom names the source of the role: platform or provider.
type User struct {
	ID                     ids.User
	Email, Name, Role      string
	Issuer, RoleFrom       string
	Tenant                 ids.Tenant // zero: of none
	TenantName, TenantRole string
	Version                int64
	CreatedAt, UpdatedAt   time.Time
	SignedInAt, DisabledAt *time.Time
}

// UserFilter narrows a list; empty fields let everyone pass.
type UserFilter struct {
	Text   string // part of the name or the e-mail address
	Role   string
	Tenant ids.Tenant
	After  ids.User
	Limit  int
}

// NewUser contains the properties of a new user. Without a tenant a user has no rights yet.
type NewUser struct {
	Email, Name, Role string
	Tenant            ids.Tenant
	TenantRole        string
}

// UserPatch contains the changes of a user. Nil leaves a field unchanged.
type UserPatch struct {
	Name, Role *string
	Disabled   *bool
	// Relink removes the identity at the provider. The next sign-in with the verified e-mail address of the user
	// links another one, as after the creation of the user. The API keys with what they have created and the SSH
	// keys end, unless SameOwner is set: the address may have another owner now.
	Relink, SameOwner bool
}

// LocalIssuer is the issuer of users without an external provider.
const LocalIssuer = "local"

// Ref identifies the user in an audit row.
func (u User) Ref() Resource {
	return Resource{Tenant: u.Tenant, Kind: "user", ID: u.ID.String()}
}

// URN is the user's resource name.
func (u User) URN(n ids.Naming) string { return u.Ref().urn(n) }

func (u User) fields() audit.Fields {
	return audit.Fields{"name": u.Name, "role": u.Role, "disabled": u.DisabledAt != nil, "issuer": u.Issuer}
}

func scanUser(row pgx.CollectableRow) (u User, err error) {
	var tenant *uuid.UUID
	err = row.Scan(&u.ID, &u.Email, &u.Name, &u.Role, &u.Issuer, &u.RoleFrom, &tenant, &u.TenantName, &u.TenantRole,
		&u.Version, &u.CreatedAt, &u.UpdatedAt, &u.SignedInAt, &u.DisabledAt)
	if tenant != nil {
		u.Tenant = ids.From[ids.Tenant](*tenant)
	}
	return u, err
}

// Users lists people by id, for the platform.
func (s *Service) Users(ctx context.Context, f UserFilter) ([]User, error) {
	return pg.List(ctx, s.DB, "users", selectUsers, scanUser, f.Text, f.Role, f.Tenant, f.After, f.Limit)
}

// UserByID reads one person, for the platform.
func (s *Service) UserByID(ctx context.Context, id ids.User) (User, error) {
	return pg.One(ctx, s.DB, "user", selectUser, scanUser, id)
}

// CreateUser makes a person ahead of their first sign-in, which finds them by
// their verified e-mail address.
func (s *Service) CreateUser(ctx context.Context, ch Change[User], n NewUser) (User, error) {
	u, err := s.draftUser(n)
	if err == nil && (u.Role != "user" || u.TenantRole != "") && ch.Caller.Role != "admin" {
		// A declared role may list the operation, and gives no other role.
		err = errs.New(errs.Forbidden, "only an administrator creates a user with a role").At("role").Try("create the user without roles")
	}
	if err == nil && (u.Role != "user" || u.TenantRole == "owner") {
		err = s.Recent(ch.Caller)
	}
	if err != nil {
		return User{}, err
	}
	return ch.Apply(ctx, s, func() (User, func(*pgx.Batch), error) {
		u.ID, u.CreatedAt = ids.New[ids.User](), s.Now()
		u.UpdatedAt = u.CreatedAt
		if u.Tenant != (ids.Tenant{}) {
			t, err := s.TenantByID(ctx, u.Tenant)
			if err != nil {
				return User{}, nil, err
			}
			u.TenantName = t.Name
		}
		return u, func(b *pgx.Batch) {
			b.Queue(insertUser, u.ID, u.Issuer, u.Email, u.Name, u.Role, u.CreatedAt).Exec(pg.OrElse(
				errs.New(errs.AlreadyExists, "a user with this e-mail address exists").At("email")))
			after := audit.WithoutPersonal(u.fields(), "name")
			if u.TenantRole != "" {
				b.Queue(putTenantMember, u.Tenant, u.ID, u.TenantRole).Exec(pg.OrElse(ErrRaced))
				after["tenant_role"] = u.TenantRole
			}
			s.Note(b, ch.Caller, "user.create", u.Ref(), nil, after)
		}, nil
	})
}

func (s *Service) draftUser(n NewUser) (u User, err error) {
	u = User{Issuer: LocalIssuer, RoleFrom: "platform", Role: n.Role, Tenant: n.Tenant, TenantRole: n.TenantRole, Version: 1}
	if u.Email, err = address("email", n.Email); err != nil {
		return User{}, err
	}
	if u.Name, err = CheckText("name", n.Name, 1, MaxName); err != nil {
		return User{}, err
	}
	if err := checkRole("role", n.Role, s.PolicyFor(Caller{}).Roles.Names()); err != nil {
		return User{}, err
	}
	switch {
	case n.Tenant != (ids.Tenant{}):
		err = checkRole("tenant_role", n.TenantRole, tenantRoles)
	case n.TenantRole != "":
		err = errs.Invalid("tenant_role", "needs a tenant")
	}
	return u, err
}

// UpdateUser changes a user. A disabled user loses all sessions and the access to
// allocations, and the API keys stop working.
func (s *Service) UpdateUser(ctx context.Context, ch Change[User], id ids.User, version int64, patch UserPatch) (User, error) {
	ended := revocation.Ended{}
	rekey := s.after(ctx, func(tx pgx.Tx) error { return ended.Follow(ctx, tx, s.Rekey) }, id.UUID)
	if patch.Disabled == nil && patch.Role == nil && !patch.Relink {
		rekey = nil
	}
	return ch.applyToRightsOf(ctx, s, func() (User, func(*pgx.Batch), error) {
		u, err := s.UserByID(ctx, id)
		if err == nil {
			err = CheckVersion(version, u.Version)
		}
		if err != nil {
			return u, nil, err
		}
		return s.editUser(ch.Caller, u, patch, &ended)
	}, rekey)
}

// editUser returns the changed user and the statements of the change. They lock the caller and the
// user, so that the last administrator cannot be removed by two concurrent changes.
func (s *Service) editUser(c Caller, old User, patch UserPatch, ended *revocation.Ended) (User, func(*pgx.Batch), error) {
	u := old
	if err := patch.apply(&u, c, s.PolicyFor(Caller{}).Roles.Names(), s.Now()); err != nil {
		return u, nil, err
	}
	was, is := audit.Differ(old.fields(), u.fields())
	if len(is) == 0 {
		return u, nil, nil
	}
	if patch.Relink || u.Role != old.Role && u.Role != "user" {
		if err := s.Recent(c); err != nil {
			return u, nil, err
		}
	}
	u.Version, u.UpdatedAt = u.Version+1, s.Now()
	return u, func(b *pgx.Batch) {
		if c.User != u.ID { // of themselves, people change but the name
			queueAdmin(b, c, u.ID)
		}
		b.Queue(updateUser, u.ID, old.Version, u.Name, u.Role, u.DisabledAt, u.UpdatedAt).Exec(pg.OrElse(ErrRaced))
		if patch.Relink {
			b.Queue(unlinkUser, u.ID)
			is["keys_ended"] = !patch.SameOwner
		}
		if patch.Relink && !patch.SameOwner {
			QueueLockUser(b, u.ID)
			ended.QueueKeys(b, u.ID, nil)
			b.Queue(forgetSSHKeys, []uuid.UUID{u.ID.UUID})
		}
		if u.DisabledAt != nil || patch.Relink {
			b.Queue(endSessions, u.ID)
		}
		s.Note(b, c, "user.update", u.Ref(), audit.WithoutPersonal(was, "name"), audit.WithoutPersonal(is, "name"))
		switch {
		case u.DisabledAt != nil && old.DisabledAt == nil:
			s.NoteLost(b, c, u.ID, u.Ref(), revocation.AccessLost{Scope: "platform", Reason: revocation.AccountDisabled})
		case u.Role == "user" && old.Role != "user":
			s.NoteLost(b, c, u.ID, Resource{Kind: "user", ID: u.ID.String()}, revocation.AccessLost{Scope: "platform", Reason: revocation.RoleRemoved})
		}
	}, nil
}

func (patch UserPatch) apply(u *User, c Caller, roles []string, now time.Time) (err error) {
	if patch.Name != nil {
		if u.Name, err = CheckText("name", *patch.Name, 1, MaxName); err != nil {
			return err
		}
	}
	if patch.Role != nil && *patch.Role != u.Role {
		switch err := checkRole("role", *patch.Role, roles); {
		case err != nil:
			return err
		case u.RoleFrom == "provider":
			return errs.New(errs.Conflict, "the sign-in provider decides this user's role").At("role").Try("change it at the provider")
		case u.ID == c.User:
			return errs.New(errs.Conflict, "a user cannot change the own role").At("role").Try("contact another administrator")
		}
		u.Role = *patch.Role
	}
	if patch.SameOwner && !patch.Relink {
		return errs.Invalid("same_owner", "is only accepted with relink")
	}
	if patch.Relink && u.Issuer == LocalIssuer {
		return errs.New(errs.Conflict, "the user has no identity at a provider").At("relink").Try("the user signs in with the address %s", u.Email)
	}
	if patch.Relink {
		u.Issuer = LocalIssuer
	}
	switch {
	case patch.Disabled == nil || *patch.Disabled == (u.DisabledAt != nil):
	case *patch.Disabled && u.ID == c.User:
		return errs.New(errs.Conflict, "a user cannot disable the own account").At("disabled").Try("contact another administrator")
	case *patch.Disabled:
		u.DisabledAt = &now
	default:
		u.DisabledAt = nil
	}
	return nil
}

// queueAdmin locks the caller and the changed user in one sequence, and checks that the caller is still
// an administrator. If two administrators demote each other, one must remain.
func queueAdmin(b *pgx.Batch, c Caller, whom ids.User) {
	b.Queue(lockUsers, []uuid.UUID{c.User.UUID, whom.UUID})
	b.Queue(selectAdmin, c.User).QueryRow(func(row pgx.Row) error {
		var admin bool
		if err := row.Scan(&admin); err != nil {
			return fmt.Errorf("reading the caller's role: %w", err)
		}
		if !admin {
			return errs.New(errs.Forbidden, "you are no administrator any more")
		}
		return nil
	})
}

// UpdateMe changes what the caller is called.
func (s *Service) UpdateMe(ctx context.Context, ch Change[User], version int64, name string) (User, error) {
	if ch.Caller.User == (ids.User{}) {
		return User{}, errs.New(errs.Forbidden, "a program has no profile")
	}
	return s.UpdateUser(ctx, ch, ch.Caller.User, version, UserPatch{Name: &name})
}
