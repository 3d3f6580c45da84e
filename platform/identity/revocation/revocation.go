// Package revocation ends API keys and credentials with what they have created: further keys, credentials of
// service accounts, and SSH keys.
package revocation

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Ended collects what a transaction has ended. The transaction needs the scope of the platform: an SSH key
// of a service account is hidden from its users.
type Ended struct {
	// Keys is the number of API keys that were ended.
	Keys int
	// principals have lost SSH keys.
	principals []uuid.UUID
}

// QueueKeys ends one API key of a user, or all for nil. Queue it behind identity.QueueLockUser.
func (e *Ended) QueueKeys(b *pgx.Batch, user ids.User, one *ids.APIKey) {
	b.Queue(endAPIKeys, user, one).QueryRow(func(row pgx.Row) error { return row.Scan(&e.Keys, &e.principals) })
}

// QueueSSHKeys removes the SSH keys that a token of a credential has added; all of the account for nil.
func (e *Ended) QueueSSHKeys(b *pgx.Batch, account ids.ServiceAccount, one *ids.Credential) {
	b.Queue(deleteMadeSSHKeys, account, one).QueryRow(func(row pgx.Row) error { return row.Scan(&e.principals) })
}

// Follow calls rekey, which may be nil, for each principal that has lost SSH keys.
func (e *Ended) Follow(ctx context.Context, tx pgx.Tx, rekey func(context.Context, pgx.Tx, uuid.UUID) error) error {
	if rekey == nil {
		return nil
	}
	for _, p := range e.principals {
		if err := rekey(ctx, tx, p); err != nil {
			return err
		}
	}
	return nil
}

// QueueSessionsBefore ends the sessions of all users that began at a time or before.
func QueueSessionsBefore(b *pgx.Batch, at time.Time) { b.Queue(endSessionsBefore, at) }
