package webhook_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
	"github.com/gpuaas/gpuaas/platform/secret"
)

// sendOne returns the request of one event.
func (b *bundle) sendOne(e webhook.Endpoint, r *receiver) received {
	b.t.Helper()
	before := len(r.all())
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	b.deliver(e.ID)
	got := r.all()
	if len(got) != before+1 {
		b.t.Fatalf("received %d more", len(got)-before)
	}
	return got[before]
}

// verifyPublic verifies a signature v1a as a receiver does.
func verifyPublic(t *testing.T, public string, header http.Header, body string) bool {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(public, "whpk_"))
	if err != nil || len(key) != ed25519.PublicKeySize {
		t.Fatal(public, err)
	}
	content := header.Get("Webhook-Id") + "." + header.Get("Webhook-Timestamp") + "." + body
	for s := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s, "v1a,"))
		if err == nil && strings.HasPrefix(s, "v1a,") && ed25519.Verify(key, []byte(content), raw) {
			return true
		}
	}
	return false
}

// The independent library accepts each message, and rejects it with any bit of the body, the id, the time or the signature
// turned.
func TestAnIndependentVerifierAcceptsSignatures(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	verifier, err := standardwebhooks.NewWebhook(e.Secret)
	if err != nil {
		t.Fatal(err)
	}
	got := b.sendOne(e, r)
	verify := func(h http.Header, body string) error { return verifier.Verify([]byte(body), h) }
	if err := verify(got.header, got.body); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	everyBit(got, func(what string, h http.Header, body string) {
		if verify(h, body) == nil {
			t.Errorf("%s: accepted", what)
		}
	})
}

// The same with Ed25519. The receiver has the public key only.
func TestAsymmetricSignatures(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL, Signature: webhook.Asymmetric})
	if e.Secret != "" || !strings.HasPrefix(e.PublicKey, "whpk_") {
		t.Fatalf("%q %q", e.Secret, e.PublicKey)
	}
	got := b.sendOne(e, r)
	if !verifyPublic(t, e.PublicKey, got.header, got.body) {
		t.Fatalf("%+v", got)
	}
	everyBit(got, func(what string, h http.Header, body string) {
		if verifyPublic(t, e.PublicKey, h, body) {
			t.Errorf("%s: accepted", what)
		}
	})
}

// everyBit turns each bit of a request. The signature is turned as bytes: some bits of its last character mean nothing.
func everyBit(got received, rejected func(what string, h http.Header, body string)) {
	for i := range len(got.body) * 8 {
		rejected("body", got.header, flip(got.body, i))
	}
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp"} {
		for i := range len(got.header.Get(name)) * 8 {
			h := got.header.Clone()
			h[name] = []string{flip(got.header.Get(name), i)}
			rejected(name, h, got.body)
		}
	}
	version, text, _ := strings.Cut(got.header.Get("Webhook-Signature"), ",")
	raw, _ := base64.StdEncoding.DecodeString(text)
	for i := range len(raw) * 8 {
		h := got.header.Clone()
		h["Webhook-Signature"] = []string{version + "," + base64.StdEncoding.EncodeToString([]byte(flip(string(raw), i)))}
		rejected("signature", h, got.body)
	}
}

func flip(text string, bit int) string {
	b := []byte(text)
	b[bit/8] ^= 1 << (bit % 8)
	return string(b)
}

// A vector that was made by hand: printf '%s' 'msg_1.1700000000.{"a":1}' | openssl dgst -sha256 -hmac <24 bytes "k"> -binary | base64.
func TestAVectorMadeByHand(t *testing.T) {
	t.Parallel()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 24)))
	got, err := webhook.SignWith(secret, "msg_1", time.Unix(1_700_000_000, 0), []byte(`{"a":1}`))
	if want := "v1,bYr7Rz93bX8WqNI5XVthzq7NE/LcYrDkos9dgSLYHOc="; err != nil || got != want {
		t.Errorf("%s, want %s, %v", got, want, err)
	}
}

// While the secret rotates, a receiver with either one accepts. Afterwards the old one has ended.
func TestBothSecretsSignWhileRotating(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	scope := webhook.Scope{Tenant: b.tenant}
	rotate := func(wanted string) (webhook.Endpoint, error) {
		return b.api.Rotate(b.as(b.tenant), change[webhook.Endpoint](b.caller(b.tenant)), scope, e.ID, wanted)
	}
	next, err := rotate("")
	if err != nil || next.Secret == e.Secret || next.PreviousUntil == nil {
		t.Fatal(next, err)
	}
	accepts := func(secret string, got received) bool {
		v, err := standardwebhooks.NewWebhook(secret)
		return err == nil && v.Verify([]byte(got.body), got.header) == nil
	}
	got := b.sendOne(e, r)
	if n := len(strings.Fields(got.header.Get("Webhook-Signature"))); n != 2 || !accepts(e.Secret, got) || !accepts(next.Secret, got) {
		t.Errorf("%d signatures", n)
	}
	if _, err := rotate(""); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("rotated twice within a day: %v", err)
	}
	b.exec(`UPDATE webhook_endpoints SET previous_until = now() - interval '1 second'`)
	if got := b.sendOne(e, r); accepts(e.Secret, got) || !accepts(next.Secret, got) {
		t.Error("the old secret has not ended")
	}
	own := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	if mine, err := rotate(own); err != nil || mine.Secret != own {
		t.Error(mine.Secret, err)
	}
}

// Secrets of callers have 24 to 64 bytes.
func TestSecretsOfCallersAreChecked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for n, wanted := range map[string]bool{"23": false, "24": true, "64": true, "65": false, "0": false} {
		length, _ := strconv.Atoi(n)
		secret := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, length))
		_, err := b.api.Create(b.as(b.tenant), change[webhook.Endpoint](b.caller(b.tenant)), webhook.Scope{Tenant: b.tenant}, webhook.NewEndpoint{
			Name: "n" + n, URL: "https://hooks.example.com/", Patterns: []string{"billing.*"}, Format: webhook.Standard, Signature: webhook.Symmetric, Secret: secret,
		})
		if (err == nil) != wanted {
			t.Errorf("%s bytes: %v", n, err)
		}
	}
	for _, secret := range []string{"whsec_", "secret", "whsec_@@@@", base64.StdEncoding.EncodeToString(make([]byte, 32))} {
		if _, err := webhook.SignWith(secret, "", time.Time{}, nil); err == nil {
			t.Errorf("%q was accepted", secret)
		}
	}
}

// The secrets are sealed in the database, and are sealed again with a new data key.
func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	other := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	if _, err := b.api.Rotate(b.as(b.tenant), change[webhook.Endpoint](b.caller(b.tenant)), webhook.Scope{Tenant: b.tenant}, other.ID, ""); err != nil {
		t.Fatal(err)
	}
	raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(e.Secret, "whsec_"))
	if n := b.count(`SELECT count(*) FROM webhook_endpoints WHERE position($1::bytea IN secret_enc) > 0`, raw); n != 0 {
		t.Error("a secret is not sealed")
	}
	old := make([]byte, 32)
	ring, err := envelope.NewRing(map[string][]byte{"test": old, "next": []byte(strings.Repeat("n", 32))}, "next")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := webhook.SealedBefore(t.Context(), b.db, "next"); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	seal := secret.Fields{Ring: ring}
	b.api.Seal, b.work.Seal = seal, seal
	if n, err := b.api.Reseal(t.Context(), "next", 1); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := webhook.SealedBefore(t.Context(), b.db, "next"); err != nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
	v, err := standardwebhooks.NewWebhook(e.Secret)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.sendOne(e, r); v.Verify([]byte(got.body), got.header) != nil {
		t.Error("the sealed secret is another one")
	}
	// An envelope of another row does not open.
	b.exec(`UPDATE webhook_endpoints SET secret_enc = (SELECT secret_enc FROM webhook_endpoints WHERE id = $1) WHERE id = $2`, e.ID, other.ID)
	b.dispatch(draft(b.tenant, b.project, "provisioning.active"))
	if err := b.work.Deliver(t.Context(), other.ID); errs.CodeOf(err) != errs.DecryptionFailed {
		t.Errorf("a secret of another row: %v", err)
	}
}
