package money

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/cli/people"
)

// ofTenant is the id of a tenant that may have been named.
func ofTenant(ctx context.Context, c *client.Client, ref string) (*uuid.UUID, error) {
	if ref == "" {
		return nil, nil //nolint:nilnil // left out is a value: all of them
	}
	t, err := people.AnyTenant(ctx, c, ref)
	return &t.Id, err
}

// NewAdminBilling returns the commands of "gpuaas admin" for billing.
func NewAdminBilling(a *output.Console) []*cobra.Command {
	return []*cobra.Command{
		newAdminPayments(a), output.Group("payment", "Manage top-ups", newAdminPaymentReconcile(a)),
		newAdminRefunds(a), output.Group("refund", "Manage refunds", newAdminRefundCreate(a)), newAdminDisputes(a),
		output.Group("balance", "Manage tenant balances", newAdminBalanceGet(a), newAdminBalanceAdjust(a)), newAdminLedger(a), newAdminUsage(a),
	}
}

func newAdminPayments(a *output.Console) *cobra.Command {
	var tenant, status string
	cmd := &cobra.Command{
		Use: "payments", Short: "List top-ups of all tenants", Args: cobra.NoArgs,
		Example: "  gpuaas admin payments --status stuck",
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only of this one, by name or id")
	cmd.Flags().StringVar(&status, "status", "", "initiated, checkout_completed, credited, failed_reconcile, expired, or stuck (sessions that an operator should check)")
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, _ []string) (client.Pager, error) {
		params := oapi.ListAdminPaymentSessionsParams{Status: output.PointerOrNil(oapi.ListAdminPaymentSessionsParamsStatus(status))}
		var err error
		params.TenantId, err = ofTenant(ctx, c, tenant)
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			params.Limit, params.Cursor = size, cursor
			return c.ListAdminPaymentSessions(ctx, &params)
		}, err
	}, adminPaymentTable)
}

func newAdminPaymentReconcile(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "reconcile ID", Short: "Reconcile a top-up with the provider", Args: cobra.ExactArgs(1)}
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		id, err := paymentID(args[0])
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ReconcilePaymentSession(ctx, id, nil, once)
		}, err
	}, adminPaymentTable)
}

func adminPaymentTable(a *output.Console, all ...oapi.AdminPaymentSession) output.Table {
	t := output.Table{
		Head: []string{"ID", "TENANT", "AMOUNT", "STATUS", "FOR", "REFUNDED", "REASON"},
		Wide: []string{"WHO", "MONEY", "CUSTOMER", "CHECKOUT", "PAYMENT", "ASKED", "AGE"},
	}
	for _, p := range all {
		kind := "test"
		if p.Livemode {
			kind = "real"
		}
		t.Add("payment/"+p.Id.String(), p.Id.String(), p.TenantId.String(), output.Amount(p.Amount), paid(p.Status), output.Age(a.Clock.Now(), p.StatusAt),
			output.OrDash(none(p.Amount.Currency, output.ValueOrZero(p.RefundedMinor))), output.CellText(output.ValueOrZero(p.Reason)),
			p.PrincipalId.String(), kind, output.CellText(output.ValueOrZero(p.Customer)), output.CellText(output.ValueOrZero(p.ProviderSession)), output.CellText(output.ValueOrZero(p.Payment)), output.Ago(a.Clock.Now(), p.CheckedAt), output.Age(a.Clock.Now(), p.CreatedAt))
	}
	return t
}

func newAdminRefunds(a *output.Console) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{Use: "refunds", Short: "List refunds of all tenants", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only of this one, by name or id")
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, _ []string) (client.Pager, error) {
		id, err := ofTenant(ctx, c, tenant)
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListAdminRefunds(ctx, &oapi.ListAdminRefundsParams{TenantId: id, Limit: size, Cursor: cursor})
		}, err
	}, refundTable)
}

func newAdminDisputes(a *output.Console) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{Use: "disputes", Short: "List disputes", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only of this one, by name or id")
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, _ []string) (client.Pager, error) {
		id, err := ofTenant(ctx, c, tenant)
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListDisputes(ctx, &oapi.ListDisputesParams{TenantId: id, Limit: size, Cursor: cursor})
		}, err
	}, disputeTable)
}

func disputeTable(a *output.Console, all ...oapi.Dispute) output.Table {
	t := output.Table{Head: []string{"ID", "TENANT", "AMOUNT", "STAGE", "FOR", "REASON"}, Wide: []string{"PAYMENT", "AGE"}}
	for _, d := range all {
		t.Add("dispute/"+d.Id, output.CellText(d.Id), d.TenantId.String(), output.Amount(d.Amount), string(d.Stage), output.Age(a.Clock.Now(), d.StageAt),
			output.CellText(d.Reason), d.PaymentSessionId.String(), output.Age(a.Clock.Now(), d.CreatedAt))
	}
	return t
}

const refundText = `Refunds the tenant of the user. --kind unspent returns unused credit to the card that
paid for it. --kind charge returns a charge: to a card if a payment inside the refund
window covers it, else as credit. The column TO of the output names the way.`

func newAdminRefundCreate(a *output.Console) *cobra.Command {
	var kind, reason, payment string
	cmd := &cobra.Command{
		Use: "create USER AMOUNT", Short: "Create a refund", Long: refundText, Args: cobra.ExactArgs(2),
		Example: "  gpuaas admin refund create owner@acme.localhost 5 --kind charge --reason \"node failed during training\"",
	}
	flags := cmd.Flags()
	flags.StringVar(&kind, "kind", "", "unspent or charge")
	flags.StringVar(&reason, "reason", "", "why; the tenant sees it")
	flags.StringVar(&payment, "payment", "", "id of the top-up to refund (default: the newest top-up that covers the amount)")
	_ = cmd.MarkFlagRequired("kind")
	_ = cmd.MarkFlagRequired("reason")
	return client.ConfirmedCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		u, m, err := moneyOf(ctx, c, args[0], args[1])
		if err != nil {
			return client.Effect{}, err
		}
		body := oapi.RefundRequest{AmountMinor: m.AmountMinor, Kind: oapi.RefundRequestKind(kind), Reason: reason}
		if payment != "" {
			id, err := paymentID(payment)
			if err != nil {
				return client.Effect{}, err
			}
			body.PaymentSessionId = &id
		}
		return client.Effect{
			Name: u.Email, What: fmt.Sprintf("%s (%s) is refunded to %s: %s", output.Amount(m), kind, belongs(u), reason),
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.CreateRefund(ctx, u.Id, nil, body, once)
			},
		}, nil
	}, func(_ client.Effect, made client.Response[oapi.Refund]) error {
		return a.Show(made.Raw, refundTable(a, made.Value))
	})
}

func newAdminBalanceGet(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "get TENANT", Short: "Show a tenant balance", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			t, err := people.AnyTenant(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			got, err := client.Send[oapi.Balance](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) { return c.GetTenantBalance(ctx, t.Id) })
			if err != nil {
				return err
			}
			return a.Show(got.Raw, balanceTable(got.Value))
		},
	}
}

const adjustText = `Adds AMOUNT to the balance of the user's tenant. A negative amount reduces the balance.
The ledger stores the reason. Write a negative amount with its currency, "EUR -25",
because a leading minus sign starts a flag.`

func newAdminBalanceAdjust(a *output.Console) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "adjust USER AMOUNT", Short: "Adjust a tenant balance", Long: adjustText, Args: cobra.ExactArgs(2),
		Example: "  gpuaas admin balance adjust owner@acme.localhost 25 --reason \"goodwill, ticket 4711\"\n" +
			"  gpuaas admin balance adjust owner@acme.localhost \"EUR -25\" --reason \"given twice\"",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; the tenant sees it")
	_ = cmd.MarkFlagRequired("reason")
	return client.ConfirmedCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Effect, error) {
		u, m, err := moneyOf(ctx, c, args[0], args[1])
		return client.Effect{
			Name: u.Email, What: correction(m, u) + ": " + reason,
			Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.AdjustBalance(ctx, u.Id, nil, oapi.AdjustmentRequest{AmountMinor: m.AmountMinor, Reason: reason}, once)
			},
		}, err
	}, func(_ client.Effect, made client.Response[oapi.Adjustment]) error {
		t := output.Table{Head: []string{"TRANSFER", "AMOUNT", "REASON"}, Wide: []string{"TENANT"}}
		v := made.Value
		t.Add("transfer/"+v.TransferId.String(), v.TransferId.String(), output.Amount(v.Amount), output.CellText(v.Reason), v.TenantId.String())
		return a.Show(made.Raw, t)
	})
}

func newAdminLedger(a *output.Console) *cobra.Command {
	when := &period{}
	var kind string
	cmd := &cobra.Command{Use: "ledger TENANT", Short: "List ledger entries of a tenant", Args: cobra.ExactArgs(1)}
	when.flags(cmd)
	cmd.Flags().StringVar(&kind, "kind", "", "only of this kind, like usage, topup or fault_credit")
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Pager, error) {
		params := oapi.ListTenantLedgerParams{Kind: output.PointerOrNil(oapi.TransferKind(kind))}
		var err error
		if params.From, params.To, err = when.read(a); err != nil {
			return nil, err
		}
		t, err := people.AnyTenant(ctx, c, args[0])
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			params.Limit, params.Cursor = size, cursor
			return c.ListTenantLedger(ctx, t.Id, &params)
		}, err
	}, entryTable)
}

// moneyOf finds a person and reads an amount in the currency of their tenant.
func moneyOf(ctx context.Context, c *client.Client, ref, text string) (oapi.UserDetail, oapi.Money, error) {
	u, err := people.User(ctx, c, ref)
	if err != nil {
		return u.Value, oapi.Money{}, err
	}
	m := output.ValueOrZero(u.Value.Balance)
	m.AmountMinor, err = amountIn(m.Currency, "AMOUNT", text)
	return u.Value, m, err
}

// belongs names a person and whose money it is about.
func belongs(u oapi.UserDetail) string {
	tenant := "no tenant"
	if u.Tenant != nil {
		tenant = "tenant " + u.Tenant.Name
	}
	if u.Balance != nil {
		tenant += ", which has " + output.Amount(*u.Balance)
	}
	return u.Email + " (" + tenant + ")"
}

func correction(m oapi.Money, of oapi.UserDetail) string {
	if m.AmountMinor < 0 {
		return output.ParseAmount(m.Currency, -m.AmountMinor) + " is deducted from " + belongs(of)
	}
	return output.Amount(m) + " is given to " + belongs(of)
}

func newAdminUsage(a *output.Console) *cobra.Command {
	when := &period{}
	by := "project"
	cmd := &cobra.Command{
		Use: "usage TENANT", Short: "Show the usage of a tenant", Args: cobra.ExactArgs(1),
		Example: "  gpuaas admin usage acme --by sku --from 30d",
	}
	when.flags(cmd)
	cmd.Flags().StringVar(&by, "by", by, "sum it by project, sku, user, allocation or day; day is in UTC")
	return client.ListCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Pager, error) {
		from, to, err := when.read(a)
		if err != nil {
			return nil, err
		}
		t, err := people.AnyTenant(ctx, c, args[0])
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			p := oapi.GetTenantUsageParams{Limit: size, Cursor: cursor, From: from, To: to, By: output.PointerOrNil(oapi.GetTenantUsageParamsBy(by))}
			return c.GetTenantUsage(ctx, t.Id, &p)
		}, err
	}, func(a *output.Console, all ...oapi.UsageSum) output.Table { return sumTable(by)(a, all...) })
}
