package server

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/stripe"
	"github.com/gpuaas/gpuaas/policies"
)

// till is what money is taken with, the same for all roles.
type till struct {
	provider payment.Provider // nil: nobody takes money
	figures  *payment.Figures
	url      func() string
}

func openTill(c Config, url func() string) (till, error) {
	t := till{figures: payment.NewFigures(), url: url}
	if c.Payments.SecretKey == "" {
		return t, nil
	}
	client, err := stripe.New(stripe.Config{Key: c.Payments.SecretKey, WebhookSecret: c.Payments.WebhookSecret, URL: c.Payments.APIURL})
	if err != nil {
		return t, fmt.Errorf("opening the account at the payment provider: %w", err)
	}
	t.provider = client
	return t, nil
}

// payments furnishes the room that brings money in.
func (t till) payments(c Config, s *set, r *rooms) *payment.Service {
	return &payment.Service{
		DB: s.db, Provider: t.provider, Identity: s.identity, Ledger: s.ledger, Naming: c.naming(), Hints: r.hints, Clock: c.Clock,
		Limits: r.policy.payment, PublicURL: t.url, Figures: t.figures, Log: c.Log,
	}
}

// payment reads what bounds a top-up, and what may be given back of it.
func (p policy) payment(c identity.Caller) payment.Limits {
	v := p.of(c)
	return payment.Limits{
		Min: v.Minor(policies.PaymentMinAmountMinor), Max: v.Minor(policies.PaymentMaxAmountMinor),
		SessionTTL: minutes(v.Int(policies.PaymentSessionTTLMinutes)), RefundWindow: days(v.Int(policies.AllocationRefundWindowDays)),
	}
}

// publicURL is where browsers reach this server. It is asked once it listens.
func (s *Server) publicURL() string {
	if at := s.cfg.Front.URL; at != nil {
		return strings.TrimSuffix(at.String(), "/")
	}
	return s.URL()
}
