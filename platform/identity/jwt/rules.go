package jwt

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Leeway is the tolerated clock difference. RFC 7519 suggests a few minutes; clocks that NTP
// synchronises differ by less than one.
const Leeway = time.Minute

// maxSubject is the limit of OpenID Connect Core for a subject.
const maxSubject = 255

// Rules are the conditions that a token must satisfy to be accepted.
type Rules struct {
	Issuer, Audience string
	Now              time.Time
}

// accessTypes are the types of a header that RFC 9068 and its forerunners write.
var accessTypes = []string{"jwt", "at+jwt", "application/at+jwt"}

// Claims of ID tokens, and of tokens that are bound to a key which this server does not check.
var notBearer = []string{"nonce", "at_hash", "c_hash", "cnf", "events"}

// Access checks the claims of an access token and returns when it ends.
func (t Token) Access(r Rules) (until time.Time, err error) {
	if !slices.Contains(accessTypes, strings.ToLower(t.Header.Text("typ"))) {
		return until, Reject("a header of type %q is none of an access token", t.Header.Text("typ"))
	}
	for _, name := range notBearer {
		if t.Claims.Has(name) {
			return until, Reject("a token with %s is no bearer token", name)
		}
	}
	// Keycloak writes Bearer, ID, Refresh or Offline here.
	if t.Claims.Has("typ") && t.Claims.Text("typ") != "Bearer" {
		return until, Reject("a token of type %q is no access token", t.Claims.Text("typ"))
	}
	return t.Basic(r)
}

// Basic checks the claims that every token needs: issuer, subject, audience and times.
func (t Token) Basic(r Rules) (until time.Time, err error) {
	subject := t.Claims.Text("sub")
	switch {
	case r.Issuer == "" || t.Claims.Text("iss") != r.Issuer:
		return until, Reject("it is of issuer %q", t.Claims.Text("iss"))
	case !t.Claims.For(r.Audience):
		return until, Reject("it is not for %q", r.Audience)
	case strings.TrimSpace(subject) == "" || len(subject) > maxSubject || strings.ContainsFunc(subject, isControl):
		return until, Reject("its subject is none")
	}
	return t.times(r.Now)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// times checks expiry, start and time of issue, each with Leeway for the difference of clocks. A
// token without an expiry is rejected: a revoked token is stored until its expiry, so it would have
// to be stored for ever.
func (t Token) times(now time.Time) (until time.Time, err error) {
	if until, err = t.Claims.Time("exp"); err != nil {
		return until, Reject("%w", err)
	}
	for _, name := range []string{"nbf", "iat"} {
		if !t.Claims.Has(name) {
			continue
		}
		from, err := t.Claims.Time(name)
		if err != nil {
			return until, Reject("%w", err)
		}
		if from.After(now.Add(Leeway)) {
			return until, Reject("its %s is in the future", name)
		}
	}
	if until = until.Add(Leeway); !now.Before(until) {
		return until, errs.New(errs.TokenExpired, "the token has expired").Try("sign in again")
	}
	return until, nil
}
