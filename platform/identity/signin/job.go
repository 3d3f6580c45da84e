package signin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity/jwt"
)

// Job is the identity of a CI job, as the forge has signed it.
type Job struct {
	Issuer, Subject string
	Until           time.Time
}

// MintTokenForJob creates a token of a service account for a job of a forge. The job presents the token
// that the forge has issued to it, and a credential of the account names its repository and ref. Our
// token ends with that of the forge.
func (s *Service) MintTokenForJob(ctx context.Context, raw string, account ids.ServiceAccount, scopes []string, audience string) (Minted, error) {
	ctx = unscoped(ctx)
	if s.Tokens == nil || s.VerifyJob == nil {
		return Minted{}, errs.New(errs.NotFound, "this installation accepts no tokens of jobs").Try("an operator lists issuers in signIn.jobIssuers of the Environment")
	}
	job, err := s.VerifyJob(ctx, raw)
	if err != nil {
		return Minted{}, err
	}
	h, err := s.jobCredential(ctx, account, job)
	if err != nil {
		return Minted{}, err
	}
	h.left = min(h.left, job.Until.Sub(s.Tokens.Clock.Now()))
	return s.mint(ctx, h, scopes, audience)
}

// jobCredential finds the credential of an account that admits a job.
func (s *Service) jobCredential(ctx context.Context, account ids.ServiceAccount, job Job) (program, error) {
	rows, err := s.DB.Query(ctx, selectJobHolders, account, job.Issuer)
	if err != nil {
		return program{}, fmt.Errorf("finding credentials of jobs: %w", err)
	}
	type candidate struct {
		program

		subject string
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c candidate, err error) {
		c.program, err = s.scanProgram(row, &c.subject)
		return c, err
	})
	if err != nil {
		return program{}, fmt.Errorf("finding credentials of jobs: %w", err)
	}
	for _, c := range all {
		if admits(c.subject, job.Subject) && c.left > 0 {
			return c.program, nil
		}
	}
	return program{}, jwt.Reject("no credential of the service account is for the jobs of %s", job.Subject)
}

// admits reports whether a subject is the named one. An asterisk at the end is a wildcard.
func admits(named, subject string) bool {
	prefix, wild := strings.CutSuffix(named, "*")
	return subject == named || wild && strings.HasPrefix(subject, prefix)
}
