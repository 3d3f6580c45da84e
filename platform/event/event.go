// Package event states facts: what happened, said once, in the transaction that
// made it true. It owns the outbox, hands facts to readers in an order that
// skips none, and relays them to JetStream. It moves no allocation and no money,
// and it waits for nobody: losing all of NATS costs delay and duplicates.
package event

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// The streams. A fact goes to the one that its subject starts with.
const (
	StreamProvisioning = "PROVISIONING"
	StreamBilling      = "BILLING"
	StreamPayments     = "PAYMENTS"
	StreamFleet        = "FLEET" // what is declared, and how far the world is from it
	StreamDLQ          = "DLQ"   // what could not be published
)

// Topic is the hint to send after a commit that holds a fact.
const Topic = "outbox"

// Fact is something that happened, as its room states it.
type Fact struct {
	ID        ids.Event // made when zero
	Stream    string
	Subject   string
	Aggregate string // allocation:<id>
	// Sequence rises within the aggregate: a consumer drops what is not above
	// the last it saw.
	Sequence      int64
	Tenant        ids.Tenant
	Project       ids.Project
	URN           string
	CorrelationID string
	Trace         string // traceparent
	Payload       any    // must encode as a JSON object
}

// Queue adds the fact to the caller's transaction. Its payload is stored with
// urn, tenant_id and project_id added.
func Queue(b *pgx.Batch, f Fact) {
	if f.ID == (ids.Event{}) {
		f.ID = ids.New[ids.Event]()
	}
	b.Queue(insertFact, f.ID.UUID, f.Stream, f.Subject, f.Aggregate, f.Sequence, f.Tenant.UUID, f.Project.UUID,
		f.URN, f.CorrelationID, f.Trace, payload{f.Payload})
}

// payload keeps pgx from taking a string or bytes for the text of a document.
type payload struct{ any }

func (p payload) MarshalJSON() ([]byte, error) { return json.Marshal(p.any) }

// Position is a place in the order of facts: by transaction, then by row. The
// zero position is before the first.
type Position struct {
	XID uint64
	Seq int64
}

// String writes the position as the cursor that clients keep; they must not read it.
func (p Position) String() string {
	return strconv.FormatUint(p.XID, 36) + "." + strconv.FormatInt(p.Seq, 36)
}

// Version is that of the envelope.
const Version = "1.0"

// Event is a fact as readers get it. Its JSON is the envelope that every door
// and every stream uses.
type Event struct {
	Position      `json:"-"`
	ID            ids.Event       `json:"event_id"`
	Type          string          `json:"event_type"` // the subject
	OccurredAt    time.Time       `json:"occurred_at"`
	Version       string          `json:"version"`
	CorrelationID string          `json:"correlation_id"`
	Payload       json.RawMessage `json:"payload"`

	Stream    string      `json:"-"`
	Aggregate string      `json:"-"`
	Sequence  int64       `json:"-"`
	Tenant    ids.Tenant  `json:"-"`
	Project   ids.Project `json:"-"`
	Trace     string      `json:"-"`
}
