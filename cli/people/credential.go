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
	var jobs oapi.Federation
	cmd := &cobra.Command{
		Use: "create ACCOUNT", Short: "Create credential", Args: cobra.ExactArgs(1), Long: credentialText,
		Example: "  gpuaas sa credential create trainer --ttl 90d > trainer.secret\n  GPUAAS_TOKEN_FILE=trainer.secret gpuaas alloc list\n" +
			"  gpuaas sa credential create ci --job-issuer https://token.actions.githubusercontent.com --job-subject 'repo:acme/fleet:*'",
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
			request := oapi.CredentialRequest{TtlSeconds: seconds}
			if jobs.Issuer != "" {
				request.Federation = &jobs
			}
			made, err := client.Change[oapi.CreatedCredential](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.CreateCredential(ctx, of.Value.Id, nil, request, once)
			})
			if err != nil {
				return err
			}
			if made.Value.Secret == nil {
				a.Notify("Jobs of %s act as the service account. Set GPUAAS_SERVICE_ACCOUNT=%s in the pipeline.", jobs.Subject, of.Value.Id)
				return a.Show(made.Raw, credentialTable(a, oapi.Credential{Id: made.Value.Id, CreatedAt: made.Value.CreatedAt, ExpiresAt: made.Value.ExpiresAt, Federation: made.Value.Federation}))
			}
			return a.ShowSecret(made.Raw, *made.Value.Secret, "credential/"+made.Value.Id.String())
		},
	}
	cmd.Flags().StringVar(&life, "ttl", "", "validity, like 90d; without it the credential does not expire")
	cmd.Flags().StringVar(&jobs.Issuer, "job-issuer", "", "issuer of the tokens of CI jobs")
	cmd.Flags().StringVar(&jobs.Subject, "job-subject", "", "subject of the tokens: the repository and the ref, or an asterisk for any ref")
	cmd.MarkFlagsRequiredTogether("job-issuer", "job-subject")
	return cmd
}

const credentialText = `Creates a credential of a service account and prints its secret once. With --job-issuer and
--job-subject the credential has no secret: the CI jobs of a repository use it with the
token that their forge issues to them.`

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
	t := output.Table{Head: []string{"ID", "FOR", "STATUS", "EXPIRES", "LAST USED", "AGE"}}
	for _, one := range all {
		t.Add("credential/"+one.Id.String(), one.Id.String(), admitted(one.Federation), inForce(a.Clock.Now(), one.ExpiresAt, one.RevokedAt), output.ExpiryText(one.ExpiresAt),
			output.Ago(a.Clock.Now(), one.LastUsedAt), output.Age(a.Clock.Now(), one.CreatedAt))
	}
	return t
}

// admitted describes the callers that use a credential.
func admitted(f *oapi.Federation) string {
	if f == nil {
		return "its secret"
	}
	return output.CellText(f.Subject + " of " + f.Issuer)
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
