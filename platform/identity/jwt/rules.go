package jwt

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Leeway is how far clocks may differ. RFC 7519 speaks of a few minutes; a minute
// is more than any host with NTP needs.
const Leeway = time.Minute

// maxSubject is what OpenID Connect Core allows a subject.
const maxSubject = 255

// Rules are what a token has to say to be believed at one door.
type Rules struct {
	Issuer, Audience string
	Now              time.Time
}

// accessTypes are the types of a header that RFC 9068 and its forerunners write.
var accessTypes = []string{"jwt", "at+jwt", "application/at+jwt"}

// Marks of ID tokens, and of tokens that are bound to a key that we do not ask for.
var notBearer = []string{"nonce", "at_hash", "c_hash", "cnf", "events"}

// Access checks the claims of an access token and returns when it ends.
func (t Token) Access(r Rules) (until time.Time, err error) {
	if !slices.Contains(accessTypes, strings.ToLower(t.Header.Text("typ"))) {
		return until, Refuse("a header of type %q is none of an access token", t.Header.Text("typ"))
	}
	for _, name := range notBearer {
		if t.Claims.Has(name) {
			return until, Refuse("a token with %s is no bearer token", name)
		}
	}
	// Keycloak says Bearer, ID, Refresh, Offline here.
	if t.Claims.Has("typ") && t.Claims.Text("typ") != "Bearer" {
		return until, Refuse("a token of type %q is no access token", t.Claims.Text("typ"))
	}
	return t.Basic(r)
}

// Basic checks what every token has to say: of whom, about whom, for whom, when.
func (t Token) Basic(r Rules) (until time.Time, err error) {
	subject := t.Claims.Text("sub")
	switch {
	case r.Issuer == "" || t.Claims.Text("iss") != r.Issuer:
		return until, Refuse("it is of issuer %q", t.Claims.Text("iss"))
	case !t.Claims.For(r.Audience):
		return until, Refuse("it is not for %q", r.Audience)
	case strings.TrimSpace(subject) == "" || len(subject) > maxSubject || strings.ContainsFunc(subject, isControl):
		return until, Refuse("its subject is none")
	}
	return t.times(r.Now)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func (t Token) times(now time.Time) (until time.Time, err error) {
	if until, err = t.Claims.Time("exp"); err != nil {
		return until, Refuse("%w", err)
	}
	for _, name := range []string{"nbf", "iat"} {
		if !t.Claims.Has(name) {
			continue
		}
		from, err := t.Claims.Time(name)
		if err != nil {
			return until, Refuse("%w", err)
		}
		if from.After(now.Add(Leeway)) {
			return until, Refuse("its %s is in the future", name)
		}
	}
	if until = until.Add(Leeway); !now.Before(until) {
		return until, errs.New(errs.TokenExpired, "the token has expired").Try("sign in again")
	}
	return until, nil
}
