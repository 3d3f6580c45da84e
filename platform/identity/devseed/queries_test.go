package devseed

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestSeedStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"tenants", "projects", "users", "tenant_memberships", "project_memberships"}, map[string]string{
		"seedTenants":            seedTenants,
		"seedProjects":           seedProjects,
		"seedPeople":             seedPeople,
		"seedMemberships":        seedMemberships,
		"seedProjectMemberships": seedProjectMemberships,
		"selectSeedProjects":     selectSeedProjects,
		"selectSeedPeople":       selectSeedPeople,
	})
}
