package people

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func newAdminTenantDelete(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "delete TENANT", Short: "Delete a tenant", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		t, err := AnyTenant(ctx, c, args[0])
		return client.Effect{
			Name: t.Name, What: fmt.Sprintf("the tenant %s, its projects and its members are deleted; the ledger and the audit log stay, under ids", t.Name),
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteTenant(ctx, t.Id, nil, once, client.IfMatch(t.Version))
			},
		}, err
	})
}

func newAdminUserDelete(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "delete USER", Short: "Delete a user", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		u, err := User(ctx, c, args[0])
		return client.Effect{
			Name: u.Value.Email, What: fmt.Sprintf("%s is deleted with all credentials; the ledger and the audit log stay, under the id", u.Value.Email),
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteUser(ctx, u.Value.Id, nil, once, client.IfMatch(u.Value.Version))
			},
		}, err
	})
}
