package signin

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	securePending = "__Host-gpuaas-signin"
	plainPending  = "gpuaas_signin"
	// maxPending limits the cookies of a browser: each sign-in in progress has one, so that two tabs do not
	// disturb each other.
	maxPending = 5
	// pendingFor is long enough for a user to enter a password and a second factor.
	pendingFor = 10 * time.Minute
)

// pending is a sign-in that a browser has begun. The browser stores it encrypted, so that the response
// of the provider counts only in this browser, and no replica stores anything.
type pending struct {
	State, Nonce, Verifier string
	Redirect, Return       string
	StepUp                 bool // the user must sign in at the provider again
	Until                  int64
}

// pendingCookie is the place that the cookies are bound to.
var pendingCookie = envelope.Place{Table: "cookies", Column: "sign-in"}

func fresh() string { return rand.Text() + rand.Text() } // 260 bits

// begin stores a new sign-in in a cookie of the browser.
func (s *Handlers) begin(w http.ResponseWriter, r *http.Request, returnTo string, stepUp bool) (pending, error) {
	p := pending{State: fresh(), Nonce: fresh(), Verifier: fresh(), Redirect: callbackOf(r), Return: returnTo, StepUp: stepUp, Until: s.Clock.Now().Add(pendingFor).Unix()}
	text, err := json.Marshal(p)
	if err != nil {
		return p, fmt.Errorf("encoding a sign-in: %w", err)
	}
	sealed := base64.RawURLEncoding.EncodeToString(s.CookieKeys.Seal(text, pendingCookie))
	secure, plain := pendingNames(p.State)
	http.SetCookie(w, request.NewCookie(r, secure, plain, sealed, pendingFor))
	dropPending(w, r)
	return p, nil
}

// pendingNames returns the names of the cookie of a sign-in.
func pendingNames(state string) (secure, plain string) {
	const some = 8
	tag := "-" + strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' || c >= '2' && c <= '7' {
			return c
		}
		return '_'
	}, state[:min(len(state), some)])
	return securePending + tag, plainPending + tag
}

// dropPending removes cookies of sign-ins that were begun, if there are many.
func dropPending(w http.ResponseWriter, r *http.Request) {
	left := maxPending - 1
	for _, c := range r.Cookies() {
		if !strings.HasPrefix(c.Name, securePending+"-") && !strings.HasPrefix(c.Name, plainPending+"-") {
			continue
		}
		if left--; left < 0 {
			http.SetCookie(w, request.NewCookie(r, c.Name, c.Name, "", 0))
		}
	}
}

// callbackOf returns the address of the callback, under the name by which the browser knows this
// server.
func callbackOf(r *http.Request) string {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return scheme + r.Host + "/auth/callback"
}

// consume returns the sign-in that this browser has begun with that state, and removes it, so that a
// response counts once.
func (s *Handlers) consume(w http.ResponseWriter, r *http.Request, state string) (p pending, err error) {
	secure, plain := pendingNames(state)
	sealed, err := request.CookieValue(r, secure, plain)
	if err != nil {
		return p, err
	}
	http.SetCookie(w, request.NewCookie(r, secure, plain, "", 0))
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err == nil {
		raw, err = s.CookieKeys.Open(raw, pendingCookie)
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
