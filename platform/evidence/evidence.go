// Package evidence stores evidence bundles: signed sets of records of a change, in one chain for each environment. It owns the
// table evidence_bundles and the files in the object store. It collects nothing: the records are those of the owning packages, and
// jobs/evidence reads them through their services. Its subpackage bundle is the format, which the CLI verifies alone.
package evidence

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/secret"
)

// The states of a bundle.
const (
	StatusPending = "pending" // it was requested, and its records are not collected
	StatusSigned  = "signed"
	StatusFailed  = "failed" // no attempt has built it, and none follows
)

// maxADay limits the bundles of a tenant that a caller requests in a day. Each needs space in the object store for years.
// The limit is of the caller, so that an operator does not use up that of the tenant.
const maxADay = 1000

// Files is the part of the object store that bundles need. product/storage/blob is above this package.
type Files interface {
	Put(ctx context.Context, id uuid.UUID, r io.Reader, size int64) (int64, error)
	Get(ctx context.Context, id uuid.UUID, offset, length int64) (io.ReadCloser, error)
	Delete(ctx context.Context, id uuid.UUID) error
}

// Service is used by the role api, which requests and reads bundles, and by the role work, which builds them.
type Service struct {
	DB       pg.Pool
	Identity *identity.Service
	Files    Files         // nil in a role that opens no object store
	Signer   secret.Signer // nil in every role but work
	// Environment is the name in every bundle.
	Environment string
	Naming      ids.Naming
	Clock       clock.Clock
	// Jobs inserts the jobs of the service; services.Enqueue sets it.
	Jobs *river.Client[pgx.Tx]
}

// Record is one row of evidence_bundles. The fields from Number to object, and SignedAt, are empty until it is signed.
type Record struct {
	ID             uuid.UUID
	Tenant         *uuid.UUID // nil: of the platform
	Kind           bundle.Kind
	About          string // a URN
	Subject        string // the id of the allocation or plan, the number of the revision, the purpose of the keys
	Cause          string
	RequestedBy    string
	CorrelationID  string
	Status         string
	Attempts       int
	FailureCode    string // of the last attempt
	FailureMessage string
	Number         *int64
	SHA256         *string // of the file
	Size           *int64
	KeyID          *string
	PublicKey      []byte
	object         *uuid.UUID
	CreatedAt      time.Time
	UpdatedAt      time.Time
	SignedAt       *time.Time
}

func scan(row pgx.CollectableRow) (r Record, err error) {
	err = row.Scan(&r.ID, &r.Tenant, &r.Kind, &r.About, &r.Subject, &r.Cause, &r.RequestedBy, &r.CorrelationID, &r.Status, &r.Attempts, &r.FailureCode, &r.FailureMessage,
		&r.Number, &r.SHA256, &r.Size, &r.KeyID, &r.PublicKey, &r.object, &r.CreatedAt, &r.UpdatedAt, &r.SignedAt)
	return r, err
}

// URN names the bundle in audit rows.
func (r Record) URN(n ids.Naming) string {
	tenant := ""
	if r.Tenant != nil {
		tenant = r.Tenant.String()
	}
	return n.Name(tenant, "", "evidence", r.ID.String()).String()
}

// Filter selects bundles. A zero value selects all.
type Filter struct {
	Kind   bundle.Kind
	About  string // a URN, or the id in it
	Status string
	After  uuid.UUID
	Limit  int
}

// List returns the bundles of the scope of ctx, newest first.
func (s *Service) List(ctx context.Context, f Filter) ([]Record, error) {
	return pg.List(ctx, s.DB, "evidence bundles", selectPage, scan, f.Kind, f.About, f.After, f.Limit, f.Status)
}

// Read returns a bundle of the scope of ctx.
func (s *Service) Read(ctx context.Context, id uuid.UUID) (Record, error) {
	return pg.One(ctx, s.DB, "evidence bundle", selectOne, scan, id)
}

// Open returns a bundle of the scope of ctx with its file, which is nil until it is signed.
func (s *Service) Open(ctx context.Context, id uuid.UUID) (Record, []byte, error) {
	r, err := s.Read(ctx, id)
	if err != nil || r.object == nil {
		return r, nil, err
	}
	from, err := s.Files.Get(ctx, *r.object, 0, -1)
	if err != nil {
		return r, nil, errs.New(errs.Unavailable, "the object store has not returned the evidence bundle").Because(err)
	}
	defer func() { _ = from.Close() }()
	file := make([]byte, min(*r.Size, bundle.MaxSize)) // of this size, because io.ReadAll needs up to twice as much
	if _, err := io.ReadFull(from, file); err != nil {
		return r, nil, errs.New(errs.Unavailable, "the object store has not returned the evidence bundle").Because(err)
	}
	if got := bundle.SHA256(file); got != *r.SHA256 {
		return r, nil, errs.New(errs.Internal, "the file of the evidence bundle in the object store has the digest %s, not %s", got, *r.SHA256)
	}
	return r, file, nil
}

// Request requests the bundle of the life of an allocation up to now. Each request has a bundle of its own.
func (s *Service) Request(ctx context.Context, ch identity.Change[Record], tenant ids.Tenant, allocation ids.Allocation, about string) (r Record, err error) {
	id, now := uuid.Must(uuid.NewV7()), s.Clock.Now().Truncate(time.Microsecond)
	r = Record{
		ID: id, Tenant: &tenant.UUID, Kind: bundle.Allocation, About: about, Subject: allocation.String(), Cause: "request/" + id.String(), RequestedBy: ch.Caller.Actor(),
		CorrelationID: ch.Caller.CorrelationID, Status: StatusPending, CreatedAt: now, UpdatedAt: now,
	}
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		reply := identity.Reply{}
		if ch.Answer != nil {
			reply = ch.Answer(r)
		}
		s.Identity.QueueKey(b, ch.Key, reply)
		b.Queue(insertPending, r.ID, r.Tenant, r.Kind, r.About, r.Subject, r.Cause, r.RequestedBy, r.CorrelationID, now)
		audit.Queue(b, audit.Entry{Tenant: tenant, By: ch.Caller.Cause(), Action: "evidence.create", Target: r.URN(s.Naming), After: map[string]any{"about": about}})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("requesting evidence of %s: %w", about, err)
		}
		if err := checkLimit(ctx, tx, tenant, r.RequestedBy); err != nil { // after the key, whose repetition has the same response
			return err
		}
		if _, err := s.Jobs.InsertTx(ctx, tx, BuildEvidence{Bundle: id}, nil); err != nil {
			return fmt.Errorf("queueing the evidence bundle %s: %w", id, err)
		}
		return nil
	})
	return r, err
}

// checkLimit rejects a request, which is stored, beyond the limit of a day. Parallel ones may exceed it by their number.
func checkLimit(ctx context.Context, tx pgx.Tx, tenant ids.Tenant, actor string) error {
	var recent int
	if err := tx.QueryRow(ctx, countRecent, tenant.UUID, actor).Scan(&recent); err != nil {
		return fmt.Errorf("counting evidence bundles: %w", err)
	}
	if recent > maxADay {
		return errs.New(errs.ConcurrencyLimitReached, "you have requested %d evidence bundles of the tenant in a day", maxADay).Try("request more tomorrow")
	}
	return nil
}
