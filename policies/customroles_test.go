package policies

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// A declared role grants its operations from the revision in which it is applied, until it is removed.
func TestDeclaredRoles(t *testing.T) {
	t.Parallel()
	c, pool := setup(t)
	do := func(change func(pgx.Tx) error) RoleTable {
		t.Helper()
		if err := pgx.BeginFunc(t.Context(), pool, change); err != nil {
			t.Fatal(err)
		}
		return refresh(t, c).Roles
	}
	object := ids.New[ids.Object]()
	put := func(tx pgx.Tx) error {
		return c.SetRole(t.Context(), tx, "night-watch", []string{"cordonNode", "listAdminNodes"}, object)
	}
	set(t, c, pool, "allocation.max_gpus", Platform, 6)
	roles := do(put)
	if !roles.Declares("night-watch") || !roles.Grants("night-watch", "cordonNode") || roles.Grants("night-watch", "drainNode") || roles.Revision != 2 {
		t.Errorf("declared: %+v", roles)
	}
	if again := do(put); again.Revision != 2 {
		t.Errorf("the same role moved the revision to %d", again.Revision)
	}
	if gone := do(func(tx pgx.Tx) error { return c.UnsetRole(t.Context(), tx, "night-watch") }); gone.Declares("night-watch") || gone.Revision != 3 {
		t.Errorf("removed: %+v", gone)
	}
}

func TestBeyond(t *testing.T) {
	t.Parallel()
	roles := NewRoleTable(1, map[string][]string{"clerk": {"listLedger", "putDesired"}, "root": {"*"}, "admin": {"getMe"}})
	for _, c := range []struct {
		role       string
		operations []string
		want       string
	}{
		{"admin", []string{"putDesired", "*"}, ""}, // no object changes a role of the release
		{"operator", []string{"cordonNode", "putDesired"}, "putDesired"},
		{"operator", []string{"*"}, "*"},
		{"clerk", []string{"listLedger", "getMe"}, ""},
		{"clerk", []string{"cordonNode"}, "cordonNode"},
		{"root", []string{"*", "cordonNode"}, ""},
		{"", []string{"listLedger"}, "listLedger"},
	} {
		if got := roles.Beyond(c.role, c.operations); got != c.want {
			t.Errorf("%s, %v: %q", c.role, c.operations, got)
		}
	}
}

func TestCheckRole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		name, operation, field string
	}{
		"valid":                {"clerk", "listLedger", ""},
		"all operations":       {"root", "*", ""},
		"a role of a release":  {"operator", "listLedger", "metadata.name"},
		"an unknown operation": {"clerk", "listLedgers", "spec.operations"},
	} {
		fault := CheckRole(c.name, []string{c.operation})
		switch {
		case fault == nil && c.field != "":
			t.Errorf("%s: accepted", name)
		case fault != nil && fault.Field != c.field:
			t.Errorf("%s: %s", name, fault.Field)
		}
	}
}
