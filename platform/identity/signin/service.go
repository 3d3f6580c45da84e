// Package signin proves who a caller is. It signs users in with a password, a sign-in code or the identity
// provider, links them to the provider's identity, and owns their sessions. It authenticates API keys,
// sessions, the provider's access tokens and the tokens of service accounts.
package signin

import (
	"context"

	"github.com/gpuaas/gpuaas/internal/cache"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Service signs in and authenticates. It reads users and their rights through identity.Service.
type Service struct {
	*identity.Service

	// Provider is the external identity provider. It may be nil.
	Provider Provider
	// Tokens creates and verifies access tokens of service accounts. It is nil where they are disabled.
	Tokens *Tokens
	// VerifyJob validates the token of a CI job. It is nil where the installation trusts no issuer of jobs.
	VerifyJob func(ctx context.Context, raw string) (Job, error)

	tokens  cache.Cache[[32]byte, identity.Caller]
	proven  cache.Cache[[32]byte, proven]
	hashing hashing
}
