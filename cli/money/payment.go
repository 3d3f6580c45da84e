package money

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewPayment(a *output.Console) *cobra.Command {
	return output.Group("payment", "Show top-ups", newPaymentList(a), newPaymentGet(a))
}

func newPaymentList(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List top-ups", Args: cobra.NoArgs}
	return client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListPaymentSessions(ctx, &oapi.ListPaymentSessionsParams{Limit: size, Cursor: cursor})
		}, nil
	}, paymentTable)
}

func newPaymentGet(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show a top-up", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := paymentID(args[0])
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			found, err := Payment(cmd.Context(), c, id)
			if err != nil {
				return err
			}
			return a.Show(found.Raw, paymentTable(a, found.Value))
		},
	}
}

func Payment(ctx context.Context, c *client.Client, id uuid.UUID) (client.Response[oapi.PaymentSession], error) {
	return client.Send[oapi.PaymentSession](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetPaymentSession(ctx, id) })
}

func paymentID(ref string) (uuid.UUID, error) {
	id, ref, ok := output.IdOf(ref)
	if !ok {
		return id, output.UsageError("%q is no id of a payment", ref)
	}
	return id, nil
}

func paymentTable(a *output.Console, all ...oapi.PaymentSession) output.Table {
	t := output.Table{Head: []string{"ID", "AMOUNT", "STATUS", "AGE", "REASON"}, Wide: []string{"EXPIRES", "CREDITED", "TRANSFER", "URL"}}
	for _, p := range all {
		t.Add("payment/"+p.Id.String(), p.Id.String(), output.Amount(p.Amount), paid(p.Status), output.Age(a.Clock.Now(), p.CreatedAt), output.CellText(output.ValueOrZero(p.Reason)),
			output.FormatTime(p.ExpiresAt), output.ExpiryText(p.CreditedAt), IdCell(p.TransferId), output.CellText(output.ValueOrZero(p.Url)))
	}
	return t
}

// paid returns the status of a top-up with its symbol.
func paid(s oapi.PaymentStatus) string {
	switch s {
	case oapi.PaymentStatusCredited:
		return output.SymbolGood + " credited"
	case oapi.PaymentStatusFailedReconcile:
		return output.SymbolBad + " failed_reconcile"
	case oapi.PaymentStatusExpired:
		return output.SymbolWarn + " expired"
	case oapi.PaymentStatusInitiated, oapi.PaymentStatusCheckoutCompleted:
	}
	return output.SymbolBusy + " " + string(s)
}

func IdCell(id *uuid.UUID) string {
	if id == nil {
		return "-"
	}
	return id.String()
}

func NewRefund(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List refunds", Args: cobra.NoArgs}
	return output.Group("refund", "Show refunds", client.ListCommand(a, cmd, func(_ context.Context, c *client.Client, _ []string) (client.Pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListRefunds(ctx, &oapi.ListRefundsParams{Limit: size, Cursor: cursor})
		}, nil
	}, refundTable))
}

func refundTable(a *output.Console, all ...oapi.Refund) output.Table {
	t := output.Table{
		Head: []string{"ID", "AMOUNT", "OF", "TO", "STATUS", "AGE", "REASON"},
		Wide: []string{"SETTLED", "FAILURE", "PAYMENT", "TRANSFER", "TENANT", "REQUESTED BY"},
	}
	for _, r := range all {
		t.Add("refund/"+r.Id.String(), r.Id.String(), output.Amount(r.Amount), string(r.Kind), string(r.Route), refunded(r.Status), output.Age(a.Clock.Now(), r.CreatedAt), output.CellText(r.Reason),
			output.ExpiryText(r.SettledAt), output.CellText(output.ValueOrZero(r.Failure)), IdCell(r.PaymentSessionId), r.TransferId.String(), r.TenantId.String(), output.CellText(r.RequestedBy))
	}
	return t
}

func refunded(s oapi.RefundStatus) string {
	switch s {
	case oapi.RefundStatusSucceeded:
		return output.SymbolGood + " succeeded"
	case oapi.RefundStatusFailed:
		return output.SymbolBad + " failed"
	case oapi.RefundStatusRequested:
	}
	return output.SymbolBusy + " " + string(s)
}
