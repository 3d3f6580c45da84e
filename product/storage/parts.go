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
)

// NewUpload describes an upload in parts.
type NewUpload struct {
	Path      objectpath.Path
	MediaType string
	Size      int64 // negative: not known
	// PartSize is that of each part but the last. 0: the server chooses it, or any with an unknown size.
	PartSize int64
	SHA256   []byte // nil: not compared
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

const (
	// smallestPart is the size that the server chooses. The number of parts limits it from below.
	smallestPart = 16 << 20
	// maxUploads limits the open uploads of a project.
	maxUploads = 10_000
)

func (u Upload) blob() blob.Upload { return blob.Upload{ID: u.ID, Handle: u.handle} }

// Parts is the number of parts, or 0 where the size is not known. An empty file has one part.
func (u Upload) Parts() int64 {
	if u.Size < 0 {
		return 0
	}
	return max(1, (u.Size+u.PartSize-1)/u.PartSize)
}

// sizeOf returns the size of a part of an upload whose size is known.
func (u Upload) sizeOf(number int) int64 {
	return min(u.PartSize, u.Size-int64(number-1)*u.PartSize)
}

// partSize returns the size that a part must have. size is the announced one, or negative.
func (u Upload) partSize(number int, size int64) (int64, error) {
	last := u.Parts()
	if last == 0 {
		last = blob.MaxParts
	}
	switch {
	case number < 1 || int64(number) > last:
		return 0, errs.Invalid("number", "is %d; the upload has parts from 1 to %d", number, last)
	case u.Size >= 0 && size >= 0 && size != u.sizeOf(number):
		return 0, errs.Invalid("Content-Length", "of part %d is %d; the part has %d bytes", number, size, u.sizeOf(number))
	case u.Size >= 0:
		return u.sizeOf(number), nil
	case size < 0:
		return 0, errs.Invalid("Content-Length", "is missing; the upload has announced no size")
	case size > blob.MaxPart:
		return 0, errs.Invalid("Content-Length", "is %d; a part can have %d bytes", size, int64(blob.MaxPart))
	}
	return size, nil
}

// choosePartSize returns the size of the parts of a new upload.
func choosePartSize(n NewUpload) (int64, error) {
	least := max((n.Size+blob.MaxParts-1)/blob.MaxParts, 1)
	switch {
	case n.PartSize < 0 || n.PartSize > blob.MaxPart:
		return 0, errs.Invalid("part_size_bytes", "is %d; from %d to %d are possible", n.PartSize, int64(blob.MinPart), int64(blob.MaxPart))
	case n.Size < 0:
		return n.PartSize, nil
	case n.PartSize == 0:
		const unit = 1 << 20
		return max(smallestPart, (least+unit-1)/unit*unit), nil
	case n.PartSize < least:
		return 0, errs.Invalid("part_size_bytes", "is %d, which leads to more than %d parts", n.PartSize, blob.MaxParts).Try("choose %d or more, or none", least)
	case n.PartSize < blob.MinPart && n.PartSize < n.Size:
		return 0, errs.Invalid("part_size_bytes", "is %d; the smallest is %d", n.PartSize, int64(blob.MinPart))
	}
	return n.PartSize, nil
}

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
	size, err := choosePartSize(n)
	if err != nil {
		return u, err
	}
	if err := s.mayUpload(ctx, at, NewFile{Path: n.Path, Size: n.Size, If: n.If}); err != nil {
		return u, err
	}
	begun, err := s.Blobs.Begin(ctx, uuid.Must(uuid.NewV7()))
	if err != nil {
		return u, Unavailable(wrap(err, "beginning the upload of", n.Path))
	}
	failpoint.Hit("storage.begin.after_object")
	u = Upload{ID: begun.ID, Path: n.Path, MediaType: n.MediaType, Size: max(n.Size, -1), PartSize: size, SHA256: n.SHA256, If: n.If, State: Open, CreatedBy: at.By.Actor, handle: begun.Handle}
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error { return s.insertUpload(ctx, tx, at, &u, k) })
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return Upload{}, errors.Join(wrap(err, "beginning the upload of", n.Path), s.Blobs.Abort(ctx, begun))
	}
	failpoint.Hit("storage.begin.after_commit")
	return u, nil
}

func (s *Service) insertUpload(ctx context.Context, tx pgx.Tx, at Scope, u *Upload, k keyed[Upload]) error {
	if err := k.begin(ctx, tx); err != nil {
		return err
	}
	if _, err := s.lock(ctx, tx, at, nil); err != nil {
		return err
	}
	life := s.Limits(at.Tenant, at.Project).UploadLife
	b := &pgx.Batch{}
	b.Queue(countUploads, at.Project, maxUploads).QueryRow(func(row pgx.Row) error {
		var n int
		if err := row.Scan(&n); err != nil || n < maxUploads {
			return err
		}
		return errs.New(errs.Conflict, "the project has %d uploads in progress", n).Try("complete or abort some of them")
	})
	b.Queue(insertUpload, u.ID, at.Tenant, at.Project, u.Path.String(), u.MediaType, orNull(u.Size >= 0, u.Size), orNull(u.PartSize > 0, u.PartSize), u.SHA256, u.If.Absent, u.If.ETag, u.handle, u.CreatedBy, life).
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
		return u, noUpload(id)
	}
	return u, err
}

func noUpload(id uuid.UUID) error {
	return errs.New(errs.StorageObjectNotFound, "the project has no upload %s; it may have expired", id).At("upload_id").Try("begin another upload")
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
	if err = row.Scan(&u.ID, &path, &u.MediaType, &size, &part, &u.SHA256, &u.If.Absent, &u.If.ETag, &u.handle, &u.State, &result, &u.hashed, &u.hash, &u.CreatedBy, &u.CreatedAt, &u.ExpiresAt); err != nil {
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
