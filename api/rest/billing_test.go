package rest_test

import (
	"context"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// measured remembers of which project it was asked.
type measured struct {
	rest.Metering

	of *ids.Project
}

func (m measured) Usage(_ context.Context, q metering.Query) ([]metering.Usage, error) {
	*m.of = q.Project
	return nil, nil
}

// Anybody of a tenant may make a project and administer it. That shows them no
// other project's use.
func TestUseEndsAtTheBorderOfTheProject(t *testing.T) {
	t.Parallel()

	var asked ids.Project
	b := setup(t, func(c *rest.Config) {
		c.Identity = administrators{c.Identity}
		c.Metering = measured{c.Metering, &asked}
	})
	for token, want := range map[string]ids.Project{tokenMember: b.people.project, tokenOwner: {}, tokenAdmin: {}} {
		if w := b.do(t, ask{method: "GET", path: "/api/v1/billing/usage", token: token}); w.Code != 200 || asked != want {
			t.Errorf("%s: %d %s, asked for the use of %s", token, w.Code, w.Body, asked)
		}
	}
	named := map[string]string{"X-Project-ID": b.people.other.String()} // who sees all may look at one
	if w := b.do(t, ask{method: "GET", path: "/api/v1/billing/usage/summary", token: tokenOwner, header: named}); w.Code != 200 || asked != b.people.other {
		t.Errorf("%d %s, asked for the use of %s", w.Code, w.Body, asked)
	}
}

// administrators are all in their project.
type administrators struct{ rest.Identity }

func (a administrators) InProject(ctx context.Context, c identity.Caller, asked string) (identity.Caller, error) {
	c, err := a.Identity.InProject(ctx, c, asked)
	c.ProjectRole = "admin"
	return c, err
}
