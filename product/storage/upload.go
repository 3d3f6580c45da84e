package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
	"github.com/gpuaas/gpuaas/product/storage/parts"
)

// NewFile describes a file that is uploaded.
type NewFile struct {
	Path      objectpath.Path
	MediaType string
	Size      int64  // negative: not known
	SHA256    []byte // nil: not compared
	Metadata  Metadata
	If        Condition
}

// Upload stores the bytes of a file, and then its row: the file is visible as a whole or not at all. It replaces a file at
// the same path, and creates the folders that are missing. created is false for a replaced file.
func (s *Service) Upload(ctx context.Context, at Scope, f NewFile, body io.Reader) (o Object, created bool, err error) {
	if err := s.MayUpload(ctx, at, f); err != nil {
		return o, false, err
	}
	r, err := s.reserve(ctx, at, max(f.Size, 0))
	if err != nil {
		return o, false, err
	}
	o, created, err = s.store(ctx, r, f, body)
	if err != nil {
		err = errors.Join(err, r.cancel(ctx))
	}
	return o, created, err
}

// MayUpload rejects what the end of the upload would reject, before the bytes are sent. more are conditions besides that of the
// file.
func (s *Service) MayUpload(ctx context.Context, at Scope, f NewFile, more ...Condition) error {
	if most := s.Limits(at.Tenant, at.Project).ObjectBytes; f.Size > most {
		return tooLarge(most)
	}
	w, err := walk(ctx, s.DB, at, f.Path)
	if err != nil {
		return err
	}
	for _, c := range append(more, f.If) {
		if _, err := w.writable(c); err != nil {
			return err
		}
	}
	return nil
}

func tooLarge(most int64) error {
	return errs.New(errs.BodyTooLarge, "a file can have %d bytes", most).Try("split it, or request a higher storage.max_object_bytes").With("policy", "storage.max_object_bytes")
}

// writable returns the object at the path that a file may replace. Its ID is zero where there is none.
func (w walked) writable(c Condition) (Object, error) {
	if err := w.clash(); err != nil {
		return Object{}, err
	}
	old, exists := w.object()
	if err := c.check(old, exists); err != nil {
		return old, err
	}
	if exists && old.Type == Folder {
		return old, errs.New(errs.Conflict, "there is a folder at %q", w.path).At("path").Try("choose another name")
	}
	return old, nil
}

func (s *Service) store(ctx context.Context, r *reservation, f NewFile, body io.Reader) (Object, bool, error) {
	counted := &reader{ctx: ctx, from: body, reservation: r, most: s.Limits(r.at.Tenant, r.at.Project).ObjectBytes, sum: sha256.New()}
	size, err := s.Blobs.Put(ctx, r.key, counted, f.Size)
	switch {
	case counted.failed != nil: // the adapter reports its own error
		return Object{}, false, counted.failed
	case errors.Is(err, blob.ErrSize):
		return Object{}, false, errs.New(errs.BadRequest, "the body has another length than announced in its headers").Because(err)
	case err != nil:
		return Object{}, false, Unavailable(wrap(err, "storing", r.key))
	}
	sum := counted.sum.Sum(nil)
	if f.SHA256 != nil && !bytes.Equal(f.SHA256, sum) {
		return Object{}, false, errs.Invalid("Content-Digest", "differs from the SHA-256 of the received bytes").Try("upload the file again")
	}
	f.Size, f.SHA256 = size, sum
	failpoint.Hit("storage.upload.after_object")
	return s.commit(ctx, r.at, r.key, f)
}

// commit makes a backend object the file at a path. The reservation of the backend object ends with it.
func (s *Service) commit(ctx context.Context, at Scope, key uuid.UUID, f NewFile) (o Object, created bool, err error) {
	err = s.inProject(ctx, &pgx.Batch{}, at, f.Path, func(tx pg.Queryer, w walked) (err error) {
		o, created, err = s.useObject(ctx, tx, at, w, key, f)
		if err == nil {
			failpoint.Hit("storage.upload.before_commit")
		}
		return err
	})
	if err == nil {
		failpoint.Hit("storage.upload.after_commit")
	}
	return o, created, wrap(err, "storing", f.Path)
}

// useObject makes a backend object the file at a path that is locked.
func (s *Service) useObject(ctx context.Context, tx pg.Queryer, at Scope, w walked, key uuid.UUID, f NewFile) (o Object, created bool, err error) {
	old, err := w.writable(f.If)
	if err != nil {
		return o, false, err
	}
	var reserved int64
	switch err := tx.QueryRow(ctx, useReservation, key).Scan(&reserved); {
	case errors.Is(err, pgx.ErrNoRows):
		return o, false, errExpired
	case err != nil:
		return o, false, err
	}
	o = Object{Key: key, Size: f.Size, SHA256: f.SHA256, MediaType: f.MediaType, Metadata: f.Metadata}
	return o, old.ID == uuid.Nil, s.putFile(ctx, tx, at, w, old, &o, change{reserved: -reserved})
}

// putFile inserts a file at a path that is locked, or gives the old file the bytes of the new one. spent is the change of
// usage besides the file.
func (s *Service) putFile(ctx context.Context, tx pg.Queryer, at Scope, w walked, old Object, o *Object, spent change) error {
	b := &pgx.Batch{}
	spent.bytes += o.Size - old.Size
	o.Type, o.Path, o.CreatedBy, o.UpdatedAt = File, w.path, at.By.Actor, s.Clock.Now()
	if old.ID != uuid.Nil {
		o.ID, o.Parent, o.Name, o.CreatedAt = old.ID, old.Parent, old.Name, old.CreatedAt
		b.Queue(replaceFile, o.ID, o.Size, o.Key, o.SHA256, o.MediaType, o.CreatedBy, o.Metadata.orEmpty())
		if old.Key != o.Key {
			b.Queue(leaveObject, old.Key, at.Tenant, at.Project, unusedFor)
		}
	} else {
		missing, parent := w.folders(len(w.path) - 1)
		for _, folder := range missing {
			queueInsert(b, at, folder)
		}
		o.ID, o.Parent, o.Name, o.CreatedAt = uuid.Must(uuid.NewV7()), parent, w.path.Name(), o.UpdatedAt
		queueInsert(b, at, *o)
		w.grow(b, 0, 0)
		spent.objects += int64(len(missing)) + 1
	}
	s.queueUsage(b, at, spent)
	return tx.SendBatch(ctx, b).Close()
}

func queueInsert(b *pgx.Batch, at Scope, o Object) {
	var key *uuid.UUID
	if o.Type == File {
		key = &o.Key
	}
	b.Queue(insertObject, o.ID, at.Tenant, at.Project, o.Parent, o.Name, objectpath.Fold(o.Name), o.Type, o.Size, key, o.SHA256, o.MediaType, at.By.Actor, o.deepest, o.longest, o.Metadata.orEmpty())
}

// reader counts the bytes of an upload, extends its reservation, and ends it at the largest size of a file.
type reader struct {
	ctx         context.Context //nolint:containedctx // an io.Reader has no parameter for it
	from        io.Reader
	reservation *reservation
	most, read  int64
	sum         hash.Hash
	failed      error // of the body or of the reservation, not of the object store
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.read += int64(n)
	switch {
	case r.read > r.most:
		r.failed = tooLarge(r.most)
	default:
		r.failed = r.reservation.covers(r.ctx, r.read)
	}
	if r.failed == nil && err != nil && !errors.Is(err, io.EOF) {
		r.failed = parts.Broken(err)
	}
	if r.failed != nil {
		return 0, r.failed
	}
	_, _ = r.sum.Write(p[:n])
	return n, err
}
