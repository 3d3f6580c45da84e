package rest_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// use writes what an allocation of a project has used, and returns the allocation.
func (b *fixture) use(of ids.Project) uuid.UUID {
	b.Helper()
	id := ids.New[ids.Allocation]()
	b.sql(`INSERT INTO usage_records (id, allocation_id, org_id, project_id, user_id, sku, gpus, price_minor, currency, account_id, start_s, end_s, closed_by)
		SELECT gen_random_uuid(), $1, $2, $3, $4, $5, 1, 289, 'EUR', id, $6::bigint, $6::bigint + 60, 'release_requested' FROM ledger_accounts WHERE org_id = $2`,
		id, tenant, of, users[tokenMember], sku, t0.Unix()-60)
	return id.UUID
}

// Anybody of a tenant may make a project and administer it. That shows them no
// other project's use.
func TestUseEndsAtTheBorderOfTheProject(t *testing.T) {
	t.Parallel()

	b := setup(t)
	other := b.addProject("other")
	b.sql(`UPDATE project_memberships SET role = 'admin' WHERE user_id = $1`, users[tokenMember])
	mine, theirs := b.use(project), b.use(other)
	for what, c := range map[string]struct {
		token, project string
		want           []uuid.UUID
	}{
		"an administrator of a project": {tokenMember, project.String(), []uuid.UUID{mine}},
		"the owner":                     {tokenOwner, "", []uuid.UUID{mine, theirs, usedBy.UUID}},
		"an administrator":              {tokenAdmin, "", []uuid.UUID{mine, theirs, usedBy.UUID}},
		"the owner, of one project":     {tokenOwner, other.String(), []uuid.UUID{theirs}}, // access to all includes access to one
	} {
		a := call{method: "GET", path: "/api/v1/billing/usage", token: c.token}
		if c.project != "" {
			a.header = map[string]string{"X-Project-ID": c.project}
		}
		w := b.do(t, a)
		var list oapi.UsageList
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
		var seen []uuid.UUID
		for _, u := range list.Items {
			seen = append(seen, u.AllocationId)
		}
		for _, id := range []uuid.UUID{mine, theirs, usedBy.UUID} {
			if slices.Contains(seen, id) != slices.Contains(c.want, id) {
				t.Errorf("%s: sees %v, want %v", what, seen, c.want)
			}
		}
	}
}
