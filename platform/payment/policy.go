package payment

import (
	"time"

	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

const day = 24 * time.Hour

// LimitsFrom returns a function that reads the limits of a caller's top-ups and refunds.
func LimitsFrom(client *policies.Client) func(identity.Caller) Limits {
	return func(c identity.Caller) Limits {
		v := client.Latest().For(c.PolicyScopes()...)
		return Limits{
			Min: v.Minor(policies.PaymentMinAmountMinor), Max: v.Minor(policies.PaymentMaxAmountMinor),
			SessionTTL:   time.Duration(v.Int(policies.PaymentSessionTTLMinutes)) * time.Minute,
			RefundWindow: time.Duration(v.Int(policies.AllocationRefundWindowDays)) * day,
			AutoTopup:    v.Bool(policies.PaymentAutoTopupEnabled),
		}
	}
}
