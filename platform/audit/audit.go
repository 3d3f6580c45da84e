// Package audit stores audit rows: the actor, the action and the resource of each privileged change. It
// writes in the transaction of the change, so a change and its audit row always exist together. It
// offers no way to change or remove a row. Verify detects any later change of a sealed row, by any
// database role.
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
type Service struct {
	DB pg.Pool
	// Archive is the folder that receives old months before their rows are dropped. Empty: rows stay.
	Archive string
}

// Entry is one privileged change.
type Entry struct {
	Tenant ids.Tenant // zero for changes to what belongs to no tenant
	By
	Action string // allocation.create
	Target string // resource name
	// Before and After are the changed parts. They are nil where there was or is nothing. Values under
	// the name of a secret are masked.
	Before, After any
}

// Queue adds the entry to the caller's transaction.
func Queue(b *pgx.Batch, e Entry) {
	client := e.Client.Clean()
	b.Queue(insertEntry, uuid.Must(uuid.NewV7()), e.Tenant.UUID, e.Actor, e.Action, e.Target,
		e.CorrelationID, document(e.Before), document(e.After), client.Address, client.UserAgent)
}

// value encodes any Go value as a JSON document. Without it pgx would send a string as the text of a
// document, and the caller's transaction would fail.
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
