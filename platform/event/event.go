// Package event emits events in the transaction that makes them true. It owns the outbox, returns events
// to readers in an order that skips none, and publishes them to JetStream. It changes no allocation and
// no balance, and it depends on no other service: the loss of NATS costs delay and duplicates.
package event

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// The streams. An event goes to the one that its subject starts with.
const (
	StreamProvisioning = "PROVISIONING"
	StreamBilling      = "BILLING"
	StreamPayments     = "PAYMENTS"
	StreamFleet        = "FLEET" // what is declared, and how far the world is from it
	StreamDLQ          = "DLQ"   // what could not be published
)

// Topic is the hint to send after a commit that contains an event.
const Topic = "outbox"

// Draft is an event before the outbox has given it a sequence.
type Draft struct {
	ID        ids.Event // made when zero
	Stream    string
	Subject   string
	Aggregate string // allocation:<id>
	// Sequence rises within the aggregate: a consumer drops what is not above
	// the last it saw.
	Sequence      int64
	Tenant        ids.Tenant
	Project       ids.Project
	User          ids.User // who owns the resource; the payload has it as user_id
	URN           string
	CorrelationID string
	Trace         string // traceparent
	Payload       any    // must encode as a JSON object
}

// Queue adds the event to the caller's transaction. Its payload is stored with
// urn, tenant_id and project_id added.
func Queue(b *pgx.Batch, f Draft) {
	if f.ID == (ids.Event{}) {
		f.ID = ids.New[ids.Event]()
	}
	b.Queue(insertEvent, f.ID.UUID, f.Stream, f.Subject, f.Aggregate, f.Sequence, f.Tenant.UUID, f.Project.UUID,
		f.URN, f.CorrelationID, f.Trace, payload{f.Payload}, f.User.UUID)
}

// payload prevents pgx from using a string or bytes as the text of a document.
type payload struct{ any }

func (p payload) MarshalJSON() ([]byte, error) { return json.Marshal(p.any) }

// Position is a place in the sequence of events: by transaction, then by row. The zero position is
// before the first event.
type Position struct {
	XID uint64
	Seq int64
}

// String returns the position as a cursor for clients. Its format is not part of the API.
func (p Position) String() string {
	return strconv.FormatUint(p.XID, 36) + "." + strconv.FormatInt(p.Seq, 36)
}

// Version is that of the envelope.
const Version = "1.0"

// Event is an event as readers receive it. Its JSON is the envelope of the stream API and of every
// JetStream stream.
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
