package rest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	securePending = "__Host-gpuaas-signin"
	plainPending  = "gpuaas_signin"
	// What somebody needs to find their password and a second factor.
	pendingFor = 10 * time.Minute
)

// pending is a sign-in that a browser has begun. It is kept by the browser itself,
// sealed: so the answer counts only where the question was asked, and no replica
// remembers anything.
type pending struct {
	State, Nonce, Verifier string
	Redirect, Return       string
	Until                  int64
}

// cookieSeal makes the key of those cookies from one that all replicas have.
func cookieSeal(secret []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "gpuaas sign-in cookie", 32)
	if err != nil {
		return nil, fmt.Errorf("making the key of sign-in cookies: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("making the key of sign-in cookies: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func fresh() string { return rand.Text() + rand.Text() } // 260 bits

// begin keeps a new sign-in in the browser.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, returnTo string) (pending, error) {
	p := pending{State: fresh(), Nonce: fresh(), Verifier: fresh(), Redirect: callbackOf(r), Return: returnTo, Until: s.Clock.Now().Add(pendingFor).Unix()}
	text, err := json.Marshal(p)
	if err != nil {
		return p, fmt.Errorf("encoding a sign-in: %w", err)
	}
	sealed := base64.RawURLEncoding.EncodeToString(s.cookies.Seal(nil, nil, text, nil)) //nolint:gosec // this AEAD draws its own nonce, and takes none
	http.SetCookie(w, cookie(r, securePending, plainPending, sealed, pendingFor))
	return p, nil
}

// callbackOf is where the provider sends this browser back to: the address that
// it knows us by.
func callbackOf(r *http.Request) string {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return scheme + r.Host + "/auth/callback"
}

// take returns the sign-in that this browser has begun with that state, and
// removes it: there is one answer to a question.
func (s *Server) take(w http.ResponseWriter, r *http.Request, state string) (p pending, err error) {
	sealed, err := cookieOf(r, securePending, plainPending)
	if err != nil {
		return p, err
	}
	http.SetCookie(w, cookie(r, securePending, plainPending, "", 0))
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err == nil {
		raw, err = s.cookies.Open(nil, nil, raw, nil)
	}
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil || subtle.ConstantTimeCompare([]byte(p.State), []byte(state)) != 1 || s.Clock.Now().Unix() >= p.Until {
		return pending{}, errs.New(errs.OIDCExchangeFailed, "this sign-in was not begun in this browser, or more than ten minutes ago").
			Try("sign in again").Because(err)
	}
	return p, nil
}
