// Package keys owns what programs and nodes authenticate users by: API keys, service accounts with their
// credentials, and SSH keys. It stores hashes and public keys only.
package keys

import (
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/platform/identity"
)

// Service owns keys. It reads users, projects and rights through identity.Service.
type Service struct {
	*identity.Service

	// Jobs carry changed SSH keys to allocations; nil where there are none.
	Jobs *river.Client[pgx.Tx]
	// JobIssuers are the issuers of the tokens of CI jobs that the installation trusts.
	JobIssuers []string
}
