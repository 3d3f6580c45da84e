package main

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newPayment(a *app) *cobra.Command {
	return group("payment", "Top-ups, and how they stand", newPaymentList(a), newPaymentGet(a))
}

func newPaymentList(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "Your top-ups, newest first", Args: cobra.NoArgs}
	return lists(a, cmd, func(_ context.Context, c *client, _ []string) (pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListPaymentSessions(ctx, &oapi.ListPaymentSessionsParams{Limit: size, Cursor: cursor})
		}, nil
	}, paymentTable)
}

func newPaymentGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "One top-up; with -o wide, where to pay it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := paymentID(args[0])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			found, err := c.payment(cmd.Context(), id)
			if err != nil {
				return err
			}
			return a.show(found.Raw, paymentTable(a, found.Value))
		},
	}
}

func (c *client) payment(ctx context.Context, id uuid.UUID) (answer[oapi.PaymentSession], error) {
	return ask[oapi.PaymentSession](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetPaymentSession(ctx, id) })
}

func paymentID(ref string) (uuid.UUID, error) {
	id, ref, ok := idOf(ref)
	if !ok {
		return id, usage("%q is no id of a payment", ref)
	}
	return id, nil
}

func paymentTable(a *app, all ...oapi.PaymentSession) table {
	t := table{head: []string{"ID", "AMOUNT", "STATUS", "AGE", "REASON"}, wide: []string{"EXPIRES", "CREDITED", "TRANSFER", "URL"}}
	for _, p := range all {
		t.add("payment/"+p.Id.String(), p.Id.String(), amount(p.Amount), paid(p.Status), age(a.Clock.Now(), p.CreatedAt), cell(deref(p.Reason)),
			stamp(p.ExpiresAt), until(p.CreditedAt), idCell(p.TransferId), cell(deref(p.Url)))
	}
	return t
}

// paid is how far a payment has come, with its symbol.
func paid(s oapi.PaymentStatus) string {
	switch s {
	case oapi.PaymentStatusCredited:
		return symbolGood + " credited"
	case oapi.PaymentStatusFailedReconcile:
		return symbolBad + " failed_reconcile"
	case oapi.PaymentStatusExpired:
		return symbolWarn + " expired"
	case oapi.PaymentStatusInitiated, oapi.PaymentStatusCheckoutCompleted:
	}
	return symbolBusy + " " + string(s)
}

func idCell(id *uuid.UUID) string {
	if id == nil {
		return "-"
	}
	return id.String()
}

func newRefund(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "What was given back, newest first", Args: cobra.NoArgs}
	return group("refund", "What was given back", lists(a, cmd, func(_ context.Context, c *client, _ []string) (pager, error) {
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListRefunds(ctx, &oapi.ListRefundsParams{Limit: size, Cursor: cursor})
		}, nil
	}, refundTable))
}

func refundTable(a *app, all ...oapi.Refund) table {
	t := table{
		head: []string{"ID", "AMOUNT", "OF", "TO", "STATUS", "AGE", "REASON"},
		wide: []string{"SETTLED", "FAILURE", "PAYMENT", "TRANSFER", "TENANT", "REQUESTED BY"},
	}
	for _, r := range all {
		t.add("refund/"+r.Id.String(), r.Id.String(), amount(r.Amount), string(r.Kind), string(r.Route), refunded(r.Status), age(a.Clock.Now(), r.CreatedAt), cell(r.Reason),
			until(r.SettledAt), cell(deref(r.Failure)), idCell(r.PaymentSessionId), r.TransferId.String(), r.TenantId.String(), cell(r.RequestedBy))
	}
	return t
}

func refunded(s oapi.RefundStatus) string {
	switch s {
	case oapi.RefundStatusSucceeded:
		return symbolGood + " succeeded"
	case oapi.RefundStatusFailed:
		return symbolBad + " failed"
	case oapi.RefundStatusRequested:
	}
	return symbolBusy + " " + string(s)
}
