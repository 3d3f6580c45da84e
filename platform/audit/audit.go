// Package audit keeps who did what to which thing. It writes in the transaction
// of the change, so that neither is ever there without the other, and it offers
// no way to alter or remove a row. What is sealed cannot be changed unseen, by
// whomever: Verify finds it.
package audit

import (
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/redact"
)

// Service reads and seals.
type Service struct{ DB pg.Pool }

// Entry is one privileged change.
type Entry struct {
	Tenant ids.Tenant // zero for changes to what belongs to no tenant
	Actor  string     // user:<id>, service-account:<id>, system:<role>, node:<id>
	Action string     // allocation.create
	Target string     // resource name
	// CorrelationID is that of the request or job which made the change.
	CorrelationID string
	// Before and After are the changed parts; nil where there was or is nothing.
	// What stands there under the name of a secret is masked.
	Before, After any
}

// Queue adds the entry to the caller's transaction.
func Queue(b *pgx.Batch, e Entry) {
	b.Queue(insertEntry, uuid.Must(uuid.NewV7()), e.Tenant.UUID, e.Actor, e.Action, e.Target,
		e.CorrelationID, document(e.Before), document(e.After))
}

// value makes any Go value a JSON document. Without it a string would be taken
// for the text of a document, and fail the caller's transaction.
type value struct{ any }

func (v value) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(v.any)
	if err != nil {
		return nil, err
	}
	return redact.JSON(text)
}

func document(v any) any {
	if v == nil {
		return nil
	}
	return value{v}
}
