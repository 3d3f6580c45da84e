// Package webhook sends the events of a tenant to HTTPS addresses that the tenant names. It owns the endpoints, their
// secrets and what was sent to them. It changes nothing that an event is about, and it promises no sequence of events: each
// message names its event, and a receiver ignores an id that it has processed.
package webhook

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification"
	"github.com/gpuaas/gpuaas/policies"
)

// Service manages endpoints, dispatches events to them and sends what is due.
type Service struct {
	DB            pg.Pool
	Identity      *identity.Service
	Notifications *notification.Service
	Clock         clock.Clock
	// Seal has the data keys of the secrets. It is nil in a role that neither creates nor sends.
	Seal   identity.Sealer
	Sender *Sender
	// MaxEndpoints returns the limit of a tenant.
	MaxEndpoints func(ids.Tenant) int64
	Metrics      *Metrics
	// Jobs inserts jobs.
	Jobs *river.Client[pgx.Tx]

	impaired chan struct{} // one entry for each failing or slow endpoint that this process sends to
	slow     *sync.Map     // ids of the endpoints whose last requests were slow
}

// New returns the service. The jobs follow.
func New(s Service) *Service {
	s.impaired, s.slow = make(chan struct{}, maxImpaired), &sync.Map{}
	return &s
}

// MaxEndpointsFrom returns the function for Service.MaxEndpoints.
func MaxEndpointsFrom(c *policies.Client) func(ids.Tenant) int64 {
	return func(tenant ids.Tenant) int64 {
		return c.Latest().For(identity.TenantScopes(tenant, ids.Project{})...).Int(policies.NotificationWebhookEndpoints)
	}
}

// Format is the form of a body.
type Format string

// The formats.
const (
	Standard Format = "standard" // the envelope of the event
	Slack    Format = "slack"    // a message with one text
)

// Signature is the kind of a signature.
type Signature string

// The signatures.
const (
	Symmetric  Signature = "v1"  // HMAC-SHA256
	Asymmetric Signature = "v1a" // Ed25519
)

// The reasons why an endpoint is disabled.
const (
	byUser     = "user"
	byFailures = "failures"
	byGone     = "gone"
)

// Endpoint is a webhook endpoint.
type Endpoint struct {
	ID             ids.Webhook
	Tenant         ids.Tenant
	Project        ids.Project // zero: all projects, and the events of the tenant
	Name           string
	URL            string
	Patterns       []string
	Format         Format
	Signature      Signature
	PublicKey      string
	PreviousUntil  *time.Time
	FailingSince   *time.Time
	BlockedUntil   *time.Time
	DisabledAt     *time.Time
	DisabledReason string
	Version        int64
	CreatedAt      time.Time
	UpdatedAt      time.Time
	// Secret is the text of the secret, only after it was created.
	Secret string

	sealed, previous []byte
}

func scanEndpoint(row pgx.CollectableRow) (e Endpoint, err error) {
	var project *uuid.UUID
	err = row.Scan(&e.ID, &e.Tenant, &project, &e.Name, &e.URL, &e.Patterns, &e.Format, &e.Signature, &e.PublicKey, &e.PreviousUntil, &e.FailingSince,
		&e.BlockedUntil, &e.DisabledAt, &e.DisabledReason, &e.Version, &e.CreatedAt, &e.UpdatedAt, &e.sealed, &e.previous)
	if project != nil {
		e.Project = ids.From[ids.Project](*project)
	}
	return e, err
}

// ref names the endpoint in audit rows and notifications.
func (e Endpoint) ref() identity.Resource {
	return identity.Resource{Tenant: e.Tenant, Project: e.Project, Kind: "webhook", ID: e.ID.String()}
}

// fields returns the parts of the endpoint that an audit row has. The path of a URL may be a secret, so only its server is stored there.
func (e Endpoint) fields() audit.Fields {
	return audit.Fields{
		"name": e.Name, "host": hostOf(e.URL), "events": e.Patterns, "format": e.Format, "signature": e.Signature, "disabled": e.DisabledAt != nil,
	}
}

// Scope limits a caller to the webhooks of a tenant, or to those of one project.
type Scope struct {
	Tenant  ids.Tenant
	Project ids.Project // zero: all
}

// Delivery is an event for an endpoint, with its attempts.
type Delivery struct {
	ID        uuid.UUID
	Endpoint  ids.Webhook
	Tenant    ids.Tenant
	Project   ids.Project
	Event     ids.Event
	EventType string
	Status    string // pending, delivered, failed or skipped
	Attempts  []Attempt
	Response  string
	NextAt    *time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Attempt is one request to an endpoint.
type Attempt struct {
	At        time.Time `json:"at"`
	Delivered bool      `json:"delivered,omitempty"`
	Status    int       `json:"status,omitempty"` // of the response; 0: there was none
	LatencyMS int64     `json:"latency_ms"`
	Error     string    `json:"error,omitempty"`
}

func scanDelivery(row pgx.CollectableRow) (d Delivery, err error) {
	var project *uuid.UUID
	err = row.Scan(&d.ID, &d.Endpoint, &d.Tenant, &project, &d.Event, &d.EventType, &d.Status, &d.Attempts, &d.Response, &d.NextAt, &d.CreatedAt, &d.UpdatedAt)
	if project != nil {
		d.Project = ids.From[ids.Project](*project)
	}
	return d, err
}
