package people

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func newCredentials(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "credentials ACCOUNT", Short: "List credentials", Args: cobra.ExactArgs(1)}
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Pager, error) {
		of, err := serviceAccount(ctx, c, args[0])
		return credentials(c, of.Value.Id), err
	}, credentialTable)
}

func credentials(c *client.Client, of uuid.UUID) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListCredentials(ctx, of, &oapi.ListCredentialsParams{Limit: size, Cursor: cursor})
	}
}

func newCredentialCreate(a *output.Console) *cobra.Command {
	var life string
	cmd := &cobra.Command{
		Use: "create ACCOUNT", Short: "Create credential", Args: cobra.ExactArgs(1),
		Example: "  gpuaas sa credential create trainer --ttl 90d > trainer.secret\n  GPUAAS_TOKEN_FILE=trainer.secret gpuaas alloc list",
		RunE: func(cmd *cobra.Command, args []string) error {
			seconds, err := output.ParseTTL(life)
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			of, err := serviceAccount(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			made, err := client.Change[oapi.CreatedCredential](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.CreateCredential(ctx, of.Value.Id, nil, oapi.CredentialRequest{TtlSeconds: seconds}, once)
			})
			if err != nil {
				return err
			}
			return a.ShowSecret(made.Raw, made.Value.Secret, "credential/"+made.Value.Id.String())
		},
	}
	cmd.Flags().StringVar(&life, "ttl", "", "how long it is good for, like 90d; without end when left out")
	return cmd
}

func newCredentialRevoke(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "revoke ACCOUNT ID", Short: "Revoke credential", Args: cobra.ExactArgs(2)}
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		of, err := serviceAccount(ctx, c, args[0])
		if err != nil {
			return client.Effect{}, err
		}
		all, err := client.ReadAll[oapi.Credential](ctx, c, 0, credentials(c, of.Value.Id))
		if err != nil {
			return client.Effect{}, err
		}
		_, ref, _ := output.IdOf(args[1])
		one, err := client.Pick(c, all.Items, "credential", ref, "gpuaas service-account credentials "+of.Value.Name, func(c oapi.Credential) []string { return []string{c.Id.String()} })
		return client.Effect{
			Name: of.Value.Name, What: fmt.Sprintf("the credential of %s (%s) is revoked", of.Value.Name, output.LastUse(a.Clock.Now(), one.LastUsedAt)),
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteCredential(ctx, of.Value.Id, one.Id, nil, once)
			},
		}, err
	})
}

func credentialTable(a *output.Console, all ...oapi.Credential) output.Table {
	t := output.Table{Head: []string{"ID", "STATUS", "EXPIRES", "LAST USED", "AGE"}}
	for _, one := range all {
		t.Add("credential/"+one.Id.String(), one.Id.String(), inForce(a.Clock.Now(), one.ExpiresAt, one.RevokedAt), output.ExpiryText(one.ExpiresAt),
			output.Ago(a.Clock.Now(), one.LastUsedAt), output.Age(a.Clock.Now(), one.CreatedAt))
	}
	return t
}

func inForce(now time.Time, expires, revoked *time.Time) string {
	switch {
	case revoked != nil:
		return output.SymbolBad + " revoked"
	case expires != nil && !now.Before(*expires):
		return output.SymbolBad + " expired"
	}
	return output.SymbolGood + " in force"
}
