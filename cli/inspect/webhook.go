package inspect

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// NewWebhook returns the commands of the webhooks of a tenant.
func NewWebhook(a *output.Console) *cobra.Command {
	return output.Group("webhook", "Manage webhooks", newWebhookList(a), newWebhookShow(a), newWebhookCreate(a), newWebhookUpdate(a), newWebhookDelete(a),
		newDeliveries(a), newResend(a), newWebhookTest(a), newRotateSecret(a), newWebhookReplay(a))
}

func newWebhookList(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List webhooks", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return webhooks(c), nil
	}, webhookTable)
}

func webhooks(c *client.Client) client.Pager {
	return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListWebhooks(ctx, &oapi.ListWebhooksParams{Limit: size, Cursor: cursor})
	}
}

// findWebhook finds one by its id or its name.
func findWebhook(ctx context.Context, c *client.Client, ref string) (client.Response[oapi.Webhook], error) {
	id, ref, ok := output.IdOf(ref)
	if !ok {
		all, err := client.ReadAll[oapi.Webhook](ctx, c, 0, webhooks(c))
		if err != nil {
			return client.Response[oapi.Webhook]{}, err
		}
		found, err := client.Pick(c, all.Items, "webhook", ref, "gpuaas webhook list", func(w oapi.Webhook) []string { return []string{w.Name} })
		if err != nil {
			return client.Response[oapi.Webhook]{}, err
		}
		id = found.Id
	}
	return client.Send[oapi.Webhook](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetWebhook(ctx, id, nil) })
}

func newWebhookShow(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "show WEBHOOK", Short: "Show a webhook", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			found, err := findWebhook(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return a.Show(found.Raw, webhookTable(a, found.Value))
		},
	}
}

func newWebhookCreate(a *output.Console) *cobra.Command {
	var events []string
	var format, signature string
	var ofTenant bool
	cmd := &cobra.Command{
		Use: "create NAME URL", Short: "Create a webhook", Args: cobra.ExactArgs(2),
		Long: `Creates a webhook and prints its secret once; with --signature v1a it prints the public key.
It receives the events of the project that --project names, or with --tenant those of all projects and of the tenant.`,
		Example: "  gpuaas webhook create deploy-bot https://hooks.example.com/gpuaas --event 'provisioning.*' > webhook.secret",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			request := oapi.WebhookRequest{
				Name: args[0], Url: args[1], Events: events, Format: output.PointerOrNil(oapi.WebhookFormat(format)), Signature: output.PointerOrNil(oapi.WebhookSignature(signature)),
			}
			if !ofTenant {
				if request.ProjectId, err = projectID(cmd.Context(), c); err != nil {
					return err
				}
			}
			made, err := client.Change[oapi.CreatedWebhook](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.CreateWebhook(ctx, nil, request, once)
			})
			if err != nil {
				return err
			}
			return showSecret(a, made)
		},
	}
	cmd.Flags().StringSliceVar(&events, "event", nil, "event, or the beginning of events with an asterisk, like 'provisioning.*'")
	cmd.Flags().StringVar(&format, "format", "", "standard or slack")
	cmd.Flags().StringVar(&signature, "signature", "", "v1 (HMAC-SHA256) or v1a (Ed25519)")
	cmd.Flags().BoolVar(&ofTenant, "tenant", false, "events of all projects and of the tenant")
	_ = cmd.MarkFlagRequired("event")
	return cmd
}

// projectID returns the id of the chosen project. Without one, the webhook would receive the events of the whole tenant.
func projectID(ctx context.Context, c *client.Client) (*uuid.UUID, error) {
	me, err := client.Send[oapi.Me](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetMe(ctx, nil) })
	if err != nil {
		return nil, err
	}
	if me.Value.Project == nil {
		return nil, errs.New(errs.ProjectRequired, "no project is selected").Try("choose one with --project, or use --tenant for the events of all projects and of the tenant")
	}
	return &me.Value.Project.Id, nil
}

// showSecret prints the secret, or the public key of a webhook without one.
func showSecret(a *output.Console, made client.Response[oapi.CreatedWebhook]) error {
	w := made.Value
	if w.Secret != nil {
		return a.ShowSecret(made.Raw, *w.Secret, "webhook/"+w.Name)
	}
	return a.ShowSecret(made.Raw, output.ValueOrZero(w.PublicKey), "webhook/"+w.Name)
}

func newWebhookUpdate(a *output.Console) *cobra.Command {
	var name, url, format string
	var events []string
	var disable, enable bool
	cmd := &cobra.Command{Use: "update WEBHOOK", Short: "Update a webhook", Args: cobra.ExactArgs(1)}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "its new name")
	flags.StringVar(&url, "to", "", "its new URL")
	flags.StringSliceVar(&events, "event", nil, "events; the list replaces all")
	flags.StringVar(&format, "format", "", "standard or slack")
	flags.BoolVar(&disable, "disable", false, "disable the webhook; its events are stored")
	flags.BoolVar(&enable, "enable", false, "enable the webhook")
	cmd.MarkFlagsMutuallyExclusive("disable", "enable")
	cmd.MarkFlagsOneRequired("name", "to", "event", "format", "disable", "enable")
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		patch := oapi.WebhookPatch{
			Name: output.FlagOrNil(cmd, "name", name), Url: output.FlagOrNil(cmd, "to", url), Events: output.FlagOrNil(cmd, "event", events),
			Format: output.FlagOrNil(cmd, "format", oapi.WebhookFormat(format)),
		}
		if disable || enable {
			patch.Disabled = &disable
		}
		found, err := findWebhook(ctx, c, args[0])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.UpdateWebhook(ctx, found.Value.Id, nil, patch, once, client.IfMatch(found.Value.Version))
		}, err
	}, webhookTable)
}

func newWebhookDelete(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "delete WEBHOOK", Short: "Delete a webhook", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		found, err := findWebhook(ctx, c, args[0])
		w := found.Value
		return client.Effect{
			Name: w.Name, What: fmt.Sprintf("%s receives no more events, and its secret is deleted", w.Url),
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DeleteWebhook(ctx, w.Id, nil, once, client.IfMatch(w.Version))
			},
		}, err
	})
}

func newRotateSecret(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "rotate-secret WEBHOOK", Short: "Rotate the secret of a webhook", Args: cobra.ExactArgs(1),
		Long: "Prints the new secret once. For 24 hours each request has a signature of the old secret, too.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			found, err := findWebhook(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			made, err := client.Change[oapi.CreatedWebhook](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.RotateWebhookSecret(ctx, found.Value.Id, nil, oapi.WebhookSecretRequest{}, once)
			})
			if err != nil {
				return err
			}
			return showSecret(a, made)
		},
	}
}

func webhookTable(_ *output.Console, all ...oapi.Webhook) output.Table {
	t := output.Table{Head: []string{"NAME", "STATUS", "EVENTS", "URL"}, Wide: []string{"FORMAT", "SIGNATURE", "PROJECT", "SINCE", "VERSION", "ID"}}
	for _, w := range all {
		since, project := "-", "-"
		switch {
		case w.DisabledAt != nil:
			since = output.FormatTime(*w.DisabledAt)
		case w.FailingSince != nil:
			since = output.FormatTime(*w.FailingSince)
		}
		if w.ProjectId != nil {
			project = w.ProjectId.String()
		}
		t.Add("webhook/"+w.Name, w.Name, statusOf(w), strings.Join(w.Events, ","), output.CellText(w.Url), string(w.Format), string(w.Signature), project, since,
			strconv.FormatInt(w.Version, 10), w.Id.String())
	}
	return t
}

func statusOf(w oapi.Webhook) string {
	symbols := map[oapi.WebhookStatus]string{oapi.WebhookStatusActive: output.SymbolGood, oapi.WebhookStatusFailing: output.SymbolWarn, oapi.WebhookStatusDisabled: output.SymbolBad}
	text := symbols[w.Status] + " " + string(w.Status)
	if w.DisabledReason != nil {
		text += " (" + string(*w.DisabledReason) + ")"
	}
	return text
}
