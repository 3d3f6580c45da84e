package policies

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// RoleTable contains the roles of this release and those that Role objects declare, at one revision. A declared role
// applies to the whole platform.
type RoleTable struct {
	Revision int64
	declared map[string][]string // operations by name
}

// NewRoleTable returns the table of a revision, with the operations of each declared role.
func NewRoleTable(revision int64, declared map[string][]string) RoleTable {
	return RoleTable{revision, declared}
}

// isBuiltIn reports whether a role is one of roles.cue.
func isBuiltIn(role string) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return r.Name == role && r.Scope != tokenScope })
}

// Names lists the roles that a user can have on the platform.
func (t RoleTable) Names() []string {
	names := []string{"user"}
	for _, r := range roles {
		if r.Scope == string(LevelPlatform) && r.Name != "user" && r.Name != "anonymous" {
			names = append(names, r.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.declared)) {
		if t.Declares(name) {
			names = append(names, name)
		}
	}
	return names
}

// Declares reports whether a Role object declares the role.
func (t RoleTable) Declares(role string) bool { return t.declared[role] != nil && !isBuiltIn(role) }

// Grants reports whether a role may call an operation.
func (t RoleTable) Grants(role, operation string) bool {
	if isBuiltIn(role) {
		return Allows(role, operation)
	}
	list := t.declared[role]
	return !Withheld(operation) && (slices.Contains(list, operation) || slices.Contains(list, every))
}

// every means all operations.
const every = "*"

// Beyond returns the first of some operations that a role of the platform does not have, or nothing.
func (t RoleTable) Beyond(role string, operations []string) string {
	for _, o := range operations {
		if !t.Grants(role, o) && !Allows("user", o) {
			return o
		}
	}
	return ""
}

// CheckRole returns the reason why a Role object is rejected.
func CheckRole(name string, operations []string) *Fault {
	if isBuiltIn(name) {
		return &Fault{"metadata.name", name + " is a role of the platform", "another name", ""}
	}
	for _, o := range operations {
		if Withheld(o) {
			return &Fault{"spec.operations", o + " is withheld from all roles of the platform", "only owners of tenants and admins of projects may call it", ""}
		}
		if o != every && !Covered(o) {
			return &Fault{"spec.operations", fmt.Sprintf("no operation is named %q", o), "operation ids of the API, like listAllocations", ""}
		}
	}
	return nil
}

// SetRole stores a declared role in the caller's transaction, which then contains the next revision. Send the hint
// Topic after the commit.
func (*Client) SetRole(ctx context.Context, tx pgx.Tx, name string, operations []string, object ids.Object) error {
	return changeRole(ctx, tx, name, setRole, name, operations, object.UUID)
}

// UnsetRole removes a declared role.
func (*Client) UnsetRole(ctx context.Context, tx pgx.Tx, name string) error {
	return changeRole(ctx, tx, name, unsetRole, name)
}

func changeRole(ctx context.Context, tx pgx.Tx, name, sql string, args ...any) error {
	if _, err := tx.Exec(ctx, lockRevision); err != nil {
		return fmt.Errorf("changing role %s: %w", name, err)
	}
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("changing role %s: %w", name, err)
	}
	return nil
}

// StoredRoles reads the operations of declared roles, so that the caller can compare them with the desired objects.
func (*Client) StoredRoles(ctx context.Context, q pg.Queryer, names []string) (map[string][]string, error) {
	stored, err := pg.Pairs[string, []string](ctx, q, selectRoles, names)
	if err != nil {
		return nil, fmt.Errorf("reading declared roles: %w", err)
	}
	return stored, nil
}
