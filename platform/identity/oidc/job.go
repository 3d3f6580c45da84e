package oidc

import (
	"context"
	"net/http"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/platform/identity/jwt"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

// JobIssuers verifies the tokens that forges issue to their CI jobs.
type JobIssuers struct {
	issuers map[string]*Provider
	// audience returns the audience that a job must request: the address of this installation. A token
	// for another installation is rejected, so that none of them can use it here.
	audience func() string
	clock    clock.Clock
}

// NewJobIssuers returns the verifier for the tokens of these issuers. It sends no request.
func NewJobIssuers(issuers []string, audience func() string, c clock.Clock, transport http.RoundTripper) *JobIssuers {
	j := &JobIssuers{issuers: map[string]*Provider{}, audience: audience, clock: c}
	for _, issuer := range issuers {
		j.issuers[issuer] = New(Config{Issuer: issuer, Clock: c, Transport: transport})
	}
	return j
}

// Verify validates the token of a job or returns the reason why it is invalid.
func (j *JobIssuers) Verify(ctx context.Context, raw string) (signin.Job, error) {
	t, err := jwt.Parse(raw)
	if err != nil {
		return signin.Job{}, err
	}
	issuer := t.Claims.Text("iss")
	p, trusted := j.issuers[issuer]
	if !trusted {
		return signin.Job{}, jwt.Reject("%q is no issuer of jobs of this installation", issuer)
	}
	if err := p.keys.verify(ctx, t); err != nil {
		return signin.Job{}, err
	}
	until, err := t.Basic(jwt.Rules{Issuer: issuer, Audience: j.audience(), Now: j.clock.Now()})
	if err != nil {
		return signin.Job{}, err
	}
	return signin.Job{Issuer: issuer, Subject: t.Claims.Text("sub"), Until: until.Add(-jwt.Leeway)}, nil
}
