// Package revision applies desired snapshots of Git sources. It owns the sources, their revisions and the pointer to the
// applied one. It writes desired objects only through package desired, and it reads no repository: gitops/source does.
package revision

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
)

// Store applies snapshots to the desired objects of its Store and records a revision for each.
type Store struct {
	*desired.Store

	// Record emits the event of a revision in the transaction that writes its state. A revision whose event cannot be
	// written is not written. It may be nil.
	Record func(ctx context.Context, tx pgx.Tx, r Revision) error
}
