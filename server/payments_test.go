package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/server"
)

func TestPaymentsFromEnv(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("rk_live_1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stripe, live := desired.Payments{Provider: "stripe"}, desired.Payments{Provider: "stripe", Livemode: true}
	for name, c := range map[string]struct {
		env         map[string]string
		profile     desired.Payments
		development bool
		want        server.Payments
		refused     string // the name that is at fault
	}{
		"nothing, nowhere":           {},
		"nothing, where expected":    {profile: stripe},
		"both":                       {env: map[string]string{"STRIPE_SECRET_KEY": "sk_test_1", "STRIPE_WEBHOOK_SECRET": "w"}, profile: stripe, want: server.Payments{SecretKey: "sk_test_1", WebhookSecret: "w"}},
		"live, from a file":          {env: map[string]string{"STRIPE_SECRET_KEY_FILE": file, "STRIPE_WEBHOOK_SECRET": "w"}, profile: live, want: server.Payments{SecretKey: "rk_live_1", WebhookSecret: "w", Livemode: true}},
		"a key alone":                {env: map[string]string{"STRIPE_SECRET_KEY": "sk_test_1"}, profile: stripe, refused: "STRIPE_WEBHOOK_SECRET"},
		"a webhook alone":            {env: map[string]string{"STRIPE_WEBHOOK_SECRET": "w"}, profile: stripe, refused: "STRIPE_SECRET_KEY"},
		"a publishable key":          {env: map[string]string{"STRIPE_SECRET_KEY": "pk_test_1", "STRIPE_WEBHOOK_SECRET": "w"}, profile: stripe, refused: "STRIPE_SECRET_KEY"},
		"live in a test place":       {env: map[string]string{"STRIPE_SECRET_KEY": "sk_live_1", "STRIPE_WEBHOOK_SECRET": "w"}, profile: stripe, refused: "STRIPE_SECRET_KEY"},
		"test in a live place":       {env: map[string]string{"STRIPE_SECRET_KEY": "rk_test_1", "STRIPE_WEBHOOK_SECRET": "w"}, profile: live, refused: "STRIPE_SECRET_KEY"},
		"without a payment provider": {env: map[string]string{"STRIPE_SECRET_KEY": "sk_test_1", "STRIPE_WEBHOOK_SECRET": "w"}, profile: desired.Payments{Provider: "none"}, refused: "STRIPE_SECRET_KEY"},
		"another address": {
			env: map[string]string{"STRIPE_SECRET_KEY": "sk_test_1", "STRIPE_WEBHOOK_SECRET": "w", "GPUAAS_PAYMENTS_API_URL": "http://x"}, profile: stripe, refused: "GPUAAS_PAYMENTS_API_URL",
		},
		"another address in development": {
			env: map[string]string{"STRIPE_SECRET_KEY": "sk_test_1", "STRIPE_WEBHOOK_SECRET": "w", "GPUAAS_PAYMENTS_API_URL": "http://x"}, profile: stripe, development: true,
			want: server.Payments{SecretKey: "sk_test_1", WebhookSecret: "w", APIURL: "http://x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := server.PaymentsFromEnv(func(name string) string { return c.env[name] })
			if err == nil {
				err = got.Check(desired.Environment{Payments: c.profile, Development: c.development})
			}
			if c.refused == "" {
				if got != c.want || err != nil {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			var refusal *errs.Error
			if !errors.As(err, &refusal) || refusal.Code != errs.ValidationError || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%v, want an error about %s", err, c.refused)
			}
			for _, secret := range []string{"sk_live_1", "sk_test_1", "rk_test_1", "pk_test_1"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error contains the key: %v", err)
				}
			}
		})
	}
}
