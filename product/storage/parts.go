package storage

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
	"github.com/gpuaas/gpuaas/product/storage/parts"
)

// NewUpload describes an upload in parts.
type NewUpload struct {
	Path      objectpath.Path
	MediaType string
	Size      int64 // negative: not known
	// PartSize is that of each part but the last. 0: the server chooses it, or any with an unknown size.
	PartSize int64
	SHA256   []byte // nil: not compared
	Metadata Metadata
	If       Condition
}

// State is that of an upload.
type State string

// The states of uploads. An aborted one cannot be read.
const (
	Open      State = "open"
	Completed State = "completed"
	aborted   State = "aborted"
)

// Upload is a row of storage_uploads.
type Upload struct {
	ID        uuid.UUID // also the key of the backend object
	Path      objectpath.Path
	MediaType string
	Size      int64 // negative: not known
	PartSize  int64 // 0: any
	SHA256    []byte
	Metadata  Metadata
	If        Condition
	State     State
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt time.Time

	handle string
	result *Uploaded
	hashed int64
	hash   []byte
}

// UpdatedAt is the time of the completion, and of the beginning before it.
func (u Upload) UpdatedAt() time.Time {
	if u.result != nil {
		return u.result.Object.UpdatedAt
	}
	return u.CreatedAt
}

// Part is a part that has arrived.
type Part struct {
	Number   int
	Size     int64
	SHA256   []byte
	ETag     string // equal bytes have equal ones
	StoredAt time.Time
}

// Uploaded is the response to the completion of an upload, and to every repetition.
type Uploaded struct {
	Object  Object
	Created bool // false: it has replaced another file
}

// maxUploads limits the open uploads of a project.
const maxUploads = 10_000

func (u Upload) blob() blob.Upload { return blob.Upload{ID: u.ID, Handle: u.handle} }

func (u Upload) layout() parts.Layout { return parts.Layout{Size: u.Size, Part: u.PartSize} }

// Parts is the number of parts, or 0 where the size is not known.
func (u Upload) Parts() int64 { return u.layout().Count() }

// BeginUpload begins an upload in parts. It reserves the announced size.
func (s *Service) BeginUpload(ctx context.Context, at Scope, n NewUpload) (Upload, error) {
	return s.begin(ctx, at, n, keyed[Upload]{})
}

// CreateUpload is BeginUpload for a request that may be repeated.
func (s *Service) CreateUpload(ctx context.Context, ch identity.Change[Upload], n NewUpload) (Upload, error) {
	return s.begin(ctx, ScopeOf(ch.Caller), n, keyed[Upload]{s.Identity, &ch})
}

// begin begins the upload in the object store before its row exists. The cleanup job aborts one without a row.
func (s *Service) begin(ctx context.Context, at Scope, n NewUpload, k keyed[Upload]) (u Upload, err error) {
	l, err := parts.Choose(n.Size, n.PartSize)
	if err != nil {
		return u, err
	}
	if err := s.MayUpload(ctx, at, NewFile{Path: n.Path, Size: n.Size, If: n.If}); err != nil {
		return u, err
	}
	begun, err := s.Blobs.Begin(ctx, uuid.Must(uuid.NewV7()))
	if err != nil {
		return u, Unavailable(wrap(err, "beginning the upload of", n.Path))
	}
	failpoint.Hit("storage.begin.after_object")
	u = Upload{ID: begun.ID, Path: n.Path, MediaType: n.MediaType, Size: l.Size, PartSize: l.Part, SHA256: n.SHA256, Metadata: n.Metadata, If: n.If, State: Open, CreatedBy: at.By.Actor, handle: begun.Handle}
	first := &pgx.Batch{}
	k.queueClaim(first)
	err = s.inProject(ctx, first, at, nil, func(tx pg.Queryer, _ walked) error { return s.insertUpload(ctx, tx, at, &u, k) })
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return Upload{}, errors.Join(wrap(err, "beginning the upload of", n.Path), s.Blobs.Abort(ctx, begun))
	}
	failpoint.Hit("storage.begin.after_commit")
	return u, nil
}

func (s *Service) insertUpload(ctx context.Context, tx pg.Queryer, at Scope, u *Upload, k keyed[Upload]) error {
	life := s.Limits(at.Tenant, at.Project).UploadLife
	b := &pgx.Batch{}
	b.Queue(countUploads, at.Project, maxUploads).QueryRow(func(row pgx.Row) error {
		var n int
		if err := row.Scan(&n); err != nil || n < maxUploads {
			return err
		}
		return errs.New(errs.Conflict, "the project has %d uploads in progress", n).Try("complete or abort some of them")
	})
	b.Queue(insertUpload, u.ID, at.Tenant, at.Project, u.Path.String(), u.MediaType, orNull(u.Size >= 0, u.Size), orNull(u.PartSize > 0, u.PartSize), u.SHA256, u.If.Absent, u.If.ETag, u.handle, u.CreatedBy, life, u.Metadata.orEmpty()).
		QueryRow(func(row pgx.Row) error { return row.Scan(&u.CreatedAt, &u.ExpiresAt) })
	b.Queue(insertReservation, u.ID, at.Tenant, at.Project, max(u.Size, 0), life)
	s.queueUsage(b, at, change{reserved: max(u.Size, 0)})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	return k.end(ctx, tx, *u)
}

// UploadOf returns an upload that is open or completed.
func (s *Service) UploadOf(ctx context.Context, at Scope, id uuid.UUID) (Upload, error) {
	return uploadOf(ctx, s.DB, selectUpload, at, id)
}

func uploadOf(ctx context.Context, q pg.Queryer, sql string, at Scope, id uuid.UUID) (Upload, error) {
	u, err := pg.One(ctx, q, "upload", sql, scanUpload, id, at.Project)
	if errs.CodeOf(err) == errs.NotFound {
		return u, noUpload()
	}
	return u, err
}

// noUpload names no id: the error is the same for an upload of another tenant.
func noUpload() error {
	return errs.New(errs.StorageObjectNotFound, "the project has no such upload; it may have expired").At("upload_id").Try("begin another upload")
}

// openUpload returns an upload that is not completed.
func (s *Service) openUpload(ctx context.Context, at Scope, id uuid.UUID) (Upload, error) {
	u, err := s.UploadOf(ctx, at, id)
	if err == nil && u.State != Open {
		err = closed(id)
	}
	return u, err
}

func closed(id uuid.UUID) error {
	return errs.New(errs.Conflict, "the upload %s is completed", id).At("upload_id")
}

// Uploads returns the open uploads of a project, the oldest first.
func (s *Service) Uploads(ctx context.Context, at Scope, after uuid.UUID, limit int) ([]Upload, error) {
	return pg.List(ctx, s.DB, "uploads", selectUploads, scanUpload, at.Project, after, limit)
}

func scanUpload(row pgx.CollectableRow) (u Upload, err error) {
	var path string
	var size, part *int64
	var result []byte
	if err = row.Scan(&u.ID, &path, &u.MediaType, &size, &part, &u.SHA256, &u.If.Absent, &u.If.ETag, &u.handle, &u.State, &result, &u.hashed, &u.hash, &u.CreatedBy, &u.CreatedAt, &u.ExpiresAt, &u.Metadata); err != nil {
		return u, err
	}
	if u.Path, err = objectpath.Parse("path", path); err != nil {
		return u, fmt.Errorf("the path of the upload %s: %w", u.ID, err)
	}
	u.Size = -1
	if size != nil {
		u.Size = *size
	}
	if part != nil {
		u.PartSize = *part
	}
	if result != nil {
		err = json.Unmarshal(result, &u.result)
	}
	return u, err
}

// storedPart is a part with what the object store names its bytes.
type storedPart struct {
	Part

	tags    []string
	arrived bool
}

func scanPart(row pgx.CollectableRow) (p storedPart, err error) {
	var at *time.Time
	if err = row.Scan(&p.Number, &p.Size, &p.SHA256, &p.tags, &at); err != nil {
		return p, err
	}
	if at != nil {
		p.StoredAt, p.arrived = *at, true
	}
	p.ETag = hex.EncodeToString(p.SHA256[:16])
	return p, nil
}

func orNull(known bool, n int64) *int64 {
	if !known {
		return nil
	}
	return &n
}
