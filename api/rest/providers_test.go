package rest_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/api/rest"
	restsignin "github.com/gpuaas/gpuaas/api/rest/signin"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/payment/stripe"
)

// signInProvider replaces a foreign OIDC provider. A code and an ID token are the name of a user.
type signInProvider struct {
	mu         sync.Mutex
	begun      map[string][3]string // redirect, nonce, verifier by state
	revoking   error                // the result of Revoke
	refreshing error                // of Refresh
	signIn     identity.SignIn      // of every user
	sent       []string             // parameters of the last request
}

const issuer = "https://id.example"

var (
	_ restsignin.Provider = (*signInProvider)(nil)
	_ signin.Provider     = (*signInProvider)(nil)
)

// provider configures the sign-in by the OIDC provider.
func provider(w *fixture, c *rest.Config) {
	c.Provider = w.provider
	c.SignIn = restsignin.Options{Issuer: issuer, CLIClientID: "gpuaas-cli", Audience: "gpuaas-api", Scopes: []string{"openid"}}
}

func (p *signInProvider) verified(name string) signin.Verified {
	return signin.Verified{Issuer: issuer, Subject: name, Email: name + "@dev.localhost", EmailVerified: true, Name: name, Until: t0.Add(time.Hour), SignIn: p.signIn}
}

func (*signInProvider) exists(name string) bool {
	for token := range people {
		if nameOf(token) == name {
			return true
		}
	}
	return false
}

func (p *signInProvider) AuthCodeURL(_ context.Context, redirect, state, nonce, verifier string, again signin.Again) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = nil
	for name, value := range again.Parameters() {
		p.sent = append(p.sent, name+"="+value)
	}
	p.begun[state] = [3]string{redirect, nonce, verifier}
	return issuer + "/authorize?state=" + url.QueryEscape(state), nil
}

// Exchange accepts a code once, with the redirect, nonce and verifier of its sign-in.
func (p *signInProvider) Exchange(_ context.Context, redirect, code, nonce, verifier string) (signin.Grant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for state, begun := range p.begun {
		if begun == [3]string{redirect, nonce, verifier} {
			delete(p.begun, state)
			return signin.Grant{Verified: p.verified(code), Refresh: code, ID: "id-of-" + code}, nil
		}
	}
	return signin.Grant{}, errs.New(errs.OIDCExchangeFailed, "the provider rejected the code")
}

func (p *signInProvider) Identify(_ context.Context, idToken string) (signin.Verified, error) {
	if !p.exists(idToken) {
		return signin.Verified{}, errs.New(errs.TokenInvalid, "the token is not valid")
	}
	return p.verified(idToken), nil
}

func (*signInProvider) Issuer() string                       { return issuer }
func (*signInProvider) Keys(context.Context) (string, error) { return "one", nil }

func (*signInProvider) Verify(context.Context, string) (signin.Verified, error) {
	return signin.Verified{}, errs.New(errs.TokenInvalid, "the token is not valid")
}

// Refresh accepts a refresh token that is the name of a user.
func (p *signInProvider) Refresh(_ context.Context, refresh string, _ bool) (signin.Grant, error) {
	if p.refreshing != nil {
		return signin.Grant{}, p.refreshing
	}
	if !p.exists(refresh) {
		return signin.Grant{}, errs.New(errs.TokenInvalid, "the provider does not accept the refresh token")
	}
	return signin.Grant{Verified: p.verified(refresh), Access: "access", Refresh: refresh, Until: t0.Add(5 * time.Minute)}, nil
}

func (*signInProvider) EndSessionURL(_ context.Context, idToken, back string) (string, error) {
	return issuer + "/end?" + url.Values{"id_token_hint": {idToken}, "post_logout_redirect_uri": {back}}.Encode(), nil
}

func (p *signInProvider) Revoke(context.Context, string, bool) error { return p.revoking }

// paymentProvider replaces Stripe: it opens checkouts, and its signatures and events are Stripe's.
type paymentProvider struct {
	*stripe.Client

	mu        sync.Mutex
	checkouts map[string]payment.Checkout
}

const webhookSecret = "whsec_of_the_test"

func newPaymentProvider() (*paymentProvider, error) {
	c, err := stripe.New(stripe.Config{Key: "sk_test_of_the_test", WebhookSecret: webhookSecret})
	return &paymentProvider{Client: c, checkouts: map[string]payment.Checkout{}}, err
}

// signature is the header with which the provider signs a body.
func signature(body string) string {
	mac := hmac.New(sha256.New, []byte(webhookSecret))
	_, _ = fmt.Fprintf(mac, "%d.%s", t0.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", t0.Unix(), hex.EncodeToString(mac.Sum(nil)))
}

func (*paymentProvider) CreateCustomer(_ context.Context, n payment.NewCustomer) (string, error) {
	return "cus_" + n.Tenant.String(), nil
}

func (*paymentProvider) OpenSetup(_ context.Context, n payment.NewSetup) (payment.Checkout, error) {
	return payment.Checkout{ID: "cs_" + n.Mandate.String(), Mode: payment.ModeSetup, URL: "https://checkout.example/c/pay/cs_setup", Stage: payment.StageOpen}, nil
}

func (p *paymentProvider) OpenCheckout(_ context.Context, n payment.NewCheckout) (payment.Checkout, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := payment.Checkout{
		ID: "cs_" + n.Session.String(), Reference: n.Session.String(), Customer: n.Customer, Amount: n.Amount, Currency: n.Currency,
		Stage: payment.StageOpen, Paid: payment.PaidLater, ExpiresAt: n.ExpiresAt, URL: payAt + n.Session.String(),
	}
	p.checkouts[c.ID] = c
	return c, nil
}

// payAt begins the address of every checkout.
const payAt = "https://pay.example/c/"

func (p *paymentProvider) Checkout(_ context.Context, id string) (payment.Checkout, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.checkouts[id]
	if !ok {
		return c, payment.ErrUnknown
	}
	return c, nil
}

func (*paymentProvider) OpenPortal(_ context.Context, customer, _ string) (string, error) {
	return "https://pay.example/p/" + customer, nil
}

func (*paymentProvider) Refund(_ context.Context, n payment.NewRefund) (payment.Refunded, error) {
	return payment.Refunded{ID: "re_" + n.ID.String(), Reference: n.ID.String(), Payment: n.Payment, Amount: n.Amount, Stage: payment.RefundSucceeded}, nil
}

func (*paymentProvider) Events(context.Context, time.Time, func([]payment.Event) error) error {
	return nil
}

// signedEvent is an event of the payment provider about a checkout.
func signedEvent(id string) string {
	return `{"id":"` + id + `","object":"event","type":"checkout.session.expired","api_version":"2023-10-16","created":` + fmt.Sprint(t0.Unix()) +
		`,"data":{"object":{"id":"cs_1"}}}`
}

// hookSignature is the header with which a GitHub forge signs a body.
func hookSignature(body string) string {
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

const hookSecret = "a secret that only the forge knows"

// unusedName returns a name that no test has used.
func unusedName(prefix string) string {
	return prefix + "-" + strings.ReplaceAll(ids.New[ids.Object]().String(), "-", "")[8:32]
}
