package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newCredentials(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "credentials ACCOUNT", Short: "What a service account signs in with, and when it last did", Args: cobra.ExactArgs(1)}
	return lists(a, cmd, func(ctx context.Context, c *client, args []string) (pager, error) {
		of, err := c.serviceAccount(ctx, args[0])
		return c.credentials(of.Value.Id), err
	}, credentialTable)
}

func (c *client) credentials(of uuid.UUID) pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListCredentials(ctx, of, &oapi.ListCredentialsParams{Limit: size, Cursor: cursor})
	}
}

func newCredentialCreate(a *app) *cobra.Command {
	var life string
	cmd := &cobra.Command{
		Use: "create ACCOUNT", Short: "A new secret, printed once; two are in force at the same time, so that one can follow the other", Args: cobra.ExactArgs(1),
		Example: "  gpuaas sa credential create trainer --ttl 90d > trainer.secret\n  GPUAAS_TOKEN_FILE=trainer.secret gpuaas alloc list",
		RunE: func(cmd *cobra.Command, args []string) error {
			seconds, err := ttl(life)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			of, err := c.serviceAccount(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			made, err := change[oapi.CredentialMade](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.CreateCredential(ctx, of.Value.Id, nil, oapi.CredentialRequest{TtlSeconds: seconds}, once)
			})
			if err != nil {
				return err
			}
			return a.showSecret(made.Raw, made.Value.Secret, "credential/"+made.Value.Id.String())
		},
	}
	cmd.Flags().StringVar(&life, "ttl", "", "how long it is good for, like 90d; without end when left out")
	return cmd
}

func newCredentialRevoke(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "revoke ACCOUNT ID", Short: "End a credential; whoever uses it is refused at once", Args: cobra.ExactArgs(2)}
	return ends(a, cmd, func(ctx context.Context, c *client, args []string) (end, error) {
		of, err := c.serviceAccount(ctx, args[0])
		if err != nil {
			return end{}, err
		}
		all, err := readAll[oapi.Credential](ctx, c, 0, c.credentials(of.Value.Id))
		if err != nil {
			return end{}, err
		}
		_, ref, _ := idOf(args[1])
		one, err := pick(c, all.Items, "credential", ref, "gpuaas service-account credentials "+of.Value.Name, func(c oapi.Credential) []string { return []string{c.Id.String()} })
		return end{
			name: of.Value.Name, what: fmt.Sprintf("a credential of %s (%s) is refused", of.Value.Name, lastUse(a.Clock.Now(), one.LastUsedAt)),
			send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteCredential(ctx, of.Value.Id, one.Id, nil, once)
			},
		}, err
	})
}

func credentialTable(a *app, all ...oapi.Credential) table {
	t := table{head: []string{"ID", "STATUS", "EXPIRES", "LAST USED", "AGE"}}
	for _, one := range all {
		t.add("credential/"+one.Id.String(), one.Id.String(), inForce(a.Clock.Now(), one.ExpiresAt, one.RevokedAt), until(one.ExpiresAt),
			ago(a.Clock.Now(), one.LastUsedAt), age(a.Clock.Now(), one.CreatedAt))
	}
	return t
}

func inForce(now time.Time, expires, revoked *time.Time) string {
	switch {
	case revoked != nil:
		return symbolBad + " revoked"
	case expires != nil && !now.Before(*expires):
		return symbolBad + " expired"
	}
	return symbolGood + " in force"
}
