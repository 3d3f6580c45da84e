package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
)

func newDeliveries(a *output.Console) *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use: "deliveries WEBHOOK", Short: "List webhook deliveries", Args: cobra.ExactArgs(1),
		Long: "Lists what was sent to the webhook, newest first. -o yaml includes each attempt with its response.",
	}
	cmd.Flags().StringVar(&status, "status", "", "only with this status: pending, delivered, failed or skipped")
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Pager, error) {
		found, err := findWebhook(ctx, c, args[0])
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListWebhookDeliveries(ctx, found.Value.Id, &oapi.ListWebhookDeliveriesParams{Limit: size, Cursor: cursor, Status: output.PointerOrNil(oapi.WebhookDeliveryStatus(status))})
		}, err
	}, deliveryTable)
}

func deliveryTable(_ *output.Console, all ...oapi.WebhookDelivery) output.Table {
	t := output.Table{Head: []string{"CREATED", "STATUS", "EVENT", "ATTEMPTS", "LAST", "NEXT", "ID"}, Wide: []string{"LATENCY", "EVENT ID"}}
	for _, d := range all {
		last, latency, next := "-", "-", "-"
		if n := len(d.Attempts); n > 0 {
			one := d.Attempts[n-1]
			latency = (time.Duration(one.LatencyMs) * time.Millisecond).String()
			if last = output.ValueOrZero(one.Error); one.Result == oapi.WebhookAttemptResultDelivered && one.StatusCode != nil {
				last = strconv.Itoa(*one.StatusCode)
			}
		}
		if d.NextAttemptAt != nil {
			next = output.FormatTime(*d.NextAttemptAt)
		}
		t.Add("webhook-delivery/"+d.Id.String(), output.FormatTime(d.CreatedAt), string(d.Status), d.EventType, strconv.Itoa(len(d.Attempts)), output.CellText(last), next,
			d.Id.String(), latency, d.EventId.String())
	}
	return t
}

func newResend(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "resend WEBHOOK DELIVERY", Short: "Resend a webhook delivery", Args: cobra.ExactArgs(2)}
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		chosen, err := parseIDs(args[1:])
		if err != nil {
			return nil, err
		}
		found, err := findWebhook(ctx, c, args[0])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ResendWebhookDelivery(ctx, found.Value.Id, chosen[0], nil, once)
		}, err
	}, deliveryTable)
}

func newWebhookReplay(a *output.Console) *cobra.Command {
	var from string
	var all bool
	cmd := &cobra.Command{
		Use: "replay WEBHOOK", Short: "Replay missed events to a webhook", Args: cobra.ExactArgs(1),
		Long:    "Sends the deliveries again that were skipped or given up. With --all it sends all since a time again.",
		Example: "  gpuaas webhook replay deploy-bot\n  gpuaas webhook replay deploy-bot --all --from 2026-01-05T09:00:00Z",
	}
	cmd.Flags().BoolVar(&all, "all", false, "also delivered ones; needs --from")
	cmd.Flags().StringVar(&from, "from", "", "only events since this time, as 2026-01-05T09:00:00Z")
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		request := oapi.WebhookReplay{Mode: oapi.WebhookReplayModeMissed}
		if all {
			request.Mode = oapi.WebhookReplayModeAll
		}
		if from != "" {
			at, err := time.Parse(time.RFC3339, from)
			if err != nil {
				return nil, output.UsageError("--from %s is not a time such as 2026-01-05T09:00:00Z", from)
			}
			request.FromAt = &at
		}
		found, err := findWebhook(ctx, c, args[0])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ReplayWebhook(ctx, found.Value.Id, nil, request, once)
		}, err
	}, func(_ *output.Console, all ...oapi.WebhookReplayAccepted) output.Table {
		t := output.Table{Head: []string{"DELIVERIES"}}
		for _, n := range all {
			t.Add("replay", strconv.Itoa(n.Deliveries))
		}
		return t
	})
}

func newWebhookTest(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "test WEBHOOK|URL", Short: "Send a test message to a webhook", Args: cobra.ExactArgs(1),
		Long: `Sends a signed message of the type webhook.test now and prints the result. With a URL, the command
itself sends it, from this computer, and prints the secret that it has signed with.`,
		Example: "  gpuaas webhook test deploy-bot\n  gpuaas webhook test http://localhost:8000/hook",
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.Contains(args[0], "://") {
				return testURL(cmd.Context(), a, args[0])
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			found, err := findWebhook(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			result, err := client.Change[oapi.WebhookTestResult](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.TestWebhook(ctx, found.Value.Id, nil, once)
			})
			if err != nil {
				return err
			}
			return showResult(a, result.Raw, result.Value)
		},
	}
}

// testURL sends a test without an installation. The secret is for this message only.
func testURL(ctx context.Context, a *output.Console, url string) error {
	secret, result, err := webhook.TestOnce(ctx, url, a.Clock)
	if err != nil {
		return err
	}
	a.Notify("Signed with %s", secret)
	shown := oapi.WebhookTestResult{
		Result: oapi.WebhookTestResultResult("failed"), MessageId: result.MessageID, LatencyMs: result.LatencyMS,
		StatusCode: output.PointerOrNil(result.Status), Error: output.PointerOrNil(result.Error), Response: output.PointerOrNil(result.Response),
	}
	if result.Delivered {
		shown.Result = oapi.WebhookTestResultResult("delivered")
	}
	raw, err := json.Marshal(shown)
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	return showResult(a, raw, shown)
}

func showResult(a *output.Console, raw []byte, r oapi.WebhookTestResult) error {
	t := output.Table{Head: []string{"RESULT", "STATUS", "LATENCY", "ERROR"}, Wide: []string{"MESSAGE"}}
	status := "-"
	if r.StatusCode != nil {
		status = strconv.Itoa(*r.StatusCode)
	}
	t.Add("webhook-test/"+r.MessageId, string(r.Result), status, (time.Duration(r.LatencyMs) * time.Millisecond).String(), output.OrDash(output.CellText(output.ValueOrZero(r.Error))), r.MessageId)
	return a.Show(raw, t)
}
