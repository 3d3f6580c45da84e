package server

import (
	"context"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/secretref"
)

// Payments is the account at the payment provider.
type Payments struct {
	SecretKey     string // empty: payments are off
	WebhookSecret string
	APIURL        string // empty: the provider's own; another one is for development
	Livemode      bool   // as the key's prefix states
}

const (
	secretKeyName     = "STRIPE_SECRET_KEY"
	webhookSecretName = "STRIPE_WEBHOOK_SECRET"
	apiURLName        = "GPUAAS_PAYMENTS_API_URL"
)

// PaymentsFromEnv reads the environment. It rejects a key without the webhook secret, because
// payments would then never be credited.
func PaymentsFromEnv(getenv func(string) string) (p Payments, err error) {
	if p.SecretKey, err = secretref.FromEnv(getenv, secretKeyName); err != nil {
		return Payments{}, err
	}
	if p.WebhookSecret, err = secretref.FromEnv(getenv, webhookSecretName); err != nil {
		return Payments{}, err
	}
	p.APIURL = getenv(apiURLName)
	switch {
	case p.SecretKey == "" && p.WebhookSecret != "":
		return Payments{}, errs.Invalid(secretKeyName, "is not set, and %s is", webhookSecretName).Try("set both or none")
	case p.SecretKey != "" && p.WebhookSecret == "":
		return Payments{}, errs.Invalid(webhookSecretName, "is not set, and %s is", secretKeyName).Try("set both or none; the secret is the webhook endpoint's, whsec_…")
	case p.SecretKey == "":
		return Payments{}, nil
	}
	kind, mode, _ := strings.Cut(p.SecretKey, "_")
	mode, _, _ = strings.Cut(mode, "_")
	if kind != "sk" && kind != "rk" || mode != "live" && mode != "test" {
		return Payments{}, errs.Invalid(secretKeyName, "is no secret or restricted key of Stripe").Try("sk_live_…, sk_test_…, rk_live_… or rk_test_…")
	}
	p.Livemode = mode == "live"
	return p, nil
}

// Check compares the key's account with the profile. A test key would sell GPUs for play money, and
// a live key would charge real money in a test environment.
func (p Payments) Check(profile desired.Environment) error {
	want := profile.Payments
	switch {
	case p.SecretKey == "":
		return nil
	case want.Provider != desired.ProviderStripe:
		return errs.Invalid(secretKeyName, "is set, but the profile disables payments").Try("payments: provider: \"stripe\" in the environment's profile, or unset the key")
	case p.Livemode != want.Livemode:
		return errs.Invalid(secretKeyName, "is a key of %s mode, but the profile sets %s", modeOf(p.Livemode), modeOf(want.Livemode)).
			Try("a key of %s mode, or payments: livemode: %t in the environment's profile", modeOf(want.Livemode), p.Livemode)
	case p.APIURL != "" && !profile.Development:
		return errs.Invalid(apiURLName, "is for development: the keys of this environment are only sent to the payment provider").Try("unset it")
	}
	return nil
}

func modeOf(live bool) string {
	if live {
		return "live"
	}
	return "test"
}

// check runs Check at a server's start. An installation may be without a key for a while: top-ups
// then fail, and all else works.
func (p Payments) check(ctx context.Context, c Config) error {
	if p.SecretKey == "" && c.Profile.Payments.Provider == desired.ProviderStripe && c.hasRole(RoleAPI) {
		c.Log.WarnContext(ctx, "the profile names a payment provider without a key: top-ups are disabled", "component", "payment")
	}
	return p.Check(c.Profile)
}
