package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/parts"
)

const (
	// completingFor is the least time that a completion has left, and its repetitions until the upload would have expired.
	completingFor = 24 * time.Hour
	// abortedFor is the time in which an abort can be repeated. The cleanup job then repeats it in the object store.
	abortedFor = time.Hour
	// hashStep is the number of bytes after which a completion stores what it has read.
	hashStep = 1 << 30
)

// Completion describes the end of an upload.
type Completion struct {
	Parts []Part    // where the upload has announced no size; nil means all
	If    Condition // besides that of the upload. A repetition does not compare it
}

// CompleteUpload joins the parts that have arrived to a file, which is visible as a whole or not at all. Where a SHA-256 was announced, the method reads the file once before
// it is visible; a repetition continues where an earlier call has ended. A part that is being sent is not included: its
// request fails, or the completion does if the part has replaced another one. created is false for a replaced file.
func (s *Service) CompleteUpload(ctx context.Context, at Scope, id uuid.UUID, c Completion) (o Object, created bool, err error) {
	r, err := s.complete(ctx, at, id, c, keyed[Uploaded]{})
	return r.Object, r.Created, err
}

// Complete is CompleteUpload for a request that may be repeated.
func (s *Service) Complete(ctx context.Context, ch identity.Change[Uploaded], id uuid.UUID, c Completion) (Uploaded, error) {
	return s.complete(ctx, ScopeOf(ch.Caller), id, c, keyed[Uploaded]{s.Identity, &ch})
}

func (s *Service) complete(ctx context.Context, at Scope, id uuid.UUID, c Completion, k keyed[Uploaded]) (r Uploaded, err error) {
	u, err := s.UploadOf(ctx, at, id)
	if err != nil {
		return r, err
	}
	if u.result != nil {
		return *u.result, nil
	}
	if r, err = s.joinAndFinish(ctx, at, u, c, k); err == nil {
		return r, nil
	}
	// Another request may have completed it meanwhile, which ends what this one needs.
	if now, again := s.UploadOf(ctx, at, id); again == nil && now.result != nil {
		return *now.result, nil
	}
	return r, err
}

func (s *Service) joinAndFinish(ctx context.Context, at Scope, u Upload, c Completion, k keyed[Uploaded]) (r Uploaded, err error) {
	if err := s.MayUpload(ctx, at, NewFile{Path: u.Path, Size: u.Size, If: u.If}, c.If); err != nil {
		return r, err
	}
	size, err := s.join(ctx, u, c.Parts, s.Limits(at.Tenant, at.Project).UploadLife)
	if err != nil {
		return r, err
	}
	failpoint.Hit("storage.complete.after_object")
	if u.SHA256 != nil {
		if err := s.verify(ctx, u, size); err != nil {
			return r, s.afterVerify(ctx, at, u, err)
		}
	}
	return s.finish(ctx, at, u, size, c.If, k)
}

// join makes the backend object, and returns its size.
func (s *Service) join(ctx context.Context, u Upload, given []Part, life time.Duration) (int64, error) {
	chosen, err := s.choose(ctx, u, given)
	if err != nil {
		return 0, err
	}
	// A repetition after a crash joins the same parts: another request with equal bytes may be in progress.
	b := &pgx.Batch{}
	b.Queue(extendUpload, u.ID, completingFor, life)
	if err := s.DB.SendBatch(ctx, b).Close(); err != nil {
		return 0, fmt.Errorf("completing the upload %s: %w", u.ID, err)
	}
	if err := s.recordParts(ctx, u, chosen); err != nil {
		return 0, err
	}
	var size int64
	for _, p := range chosen {
		size += p.Size
	}
	switch err := s.Blobs.Complete(ctx, u.blob(), chosen); {
	case errors.Is(err, blob.ErrPart):
		return 0, errs.New(errs.Conflict, "a part of the upload was replaced meanwhile").At("upload_id").Try("complete the upload again").Because(err)
	case errors.Is(err, blob.ErrNotFound):
		return 0, errs.New(errs.Conflict, "the object store has no upload %s any more", u.ID).At("upload_id").Try("abort the upload, and begin another one").Because(err)
	case err != nil:
		return 0, Unavailable(wrap(err, "completing the upload", u.ID))
	}
	return size, nil
}

// choose returns the parts of the file as the object store has them.
func (s *Service) choose(ctx context.Context, u Upload, given []Part) ([]blob.Part, error) {
	rows, err := s.parts(ctx, u)
	if err != nil {
		return nil, err
	}
	inStore, err := s.inStore(ctx, u)
	if err != nil {
		return nil, err
	}
	var lost []int
	found := map[int]storedPart{}
	for _, p := range rows {
		switch stored, ok := p.in(inStore); {
		case inStore == nil && p.arrived: // joined by an earlier call, which has recorded one tag
			p.tags = p.tags[len(p.tags)-1:]
			found[p.Number] = p
		case ok:
			p.tags = []string{stored.Tag}
			found[p.Number] = p
		case p.arrived:
			lost = append(lost, p.Number)
		}
	}
	if len(lost) > 0 { // two requests with different bytes for one part
		if _, err := s.DB.Exec(ctx, partsLost, u.ID, lost); err != nil {
			return nil, wrap(err, "recording the parts of", u.ID)
		}
	}
	return u.check(given, found)
}

// check returns an error unless the parts are those of the file.
func (u Upload) check(given []Part, found map[int]storedPart) (chosen []blob.Part, err error) {
	if given == nil {
		for number := 1; number <= blob.MaxParts; number++ {
			if p, ok := found[number]; ok {
				given = append(given, p.Part)
			}
		}
	}
	last := 0
	for _, p := range given {
		if p.Number <= last || p.Number > blob.MaxParts {
			return nil, errs.Invalid("parts", "does not ascend from 1 to %d: part %d after %d", blob.MaxParts, p.Number, last)
		}
		last = p.Number
		stored, ok := found[p.Number]
		if !ok || !p.describes(stored.Part) {
			return nil, parts.Missing(p.Number)
		}
		chosen = append(chosen, blob.Part{Number: p.Number, Size: stored.Size, Tag: stored.tags[0]})
	}
	return chosen, u.layout().Whole(chosen)
}

// describes reports whether a stored part is the one that a client has named. Fields that are not set are not compared.
func (p Part) describes(stored Part) bool {
	return (p.SHA256 == nil || bytes.Equal(p.SHA256, stored.SHA256)) && (p.ETag == "" || p.ETag == stored.ETag) && (p.Size == 0 || p.Size == stored.Size)
}

// errDigest means that the file is not the announced one.
var errDigest = errs.Invalid("sha256", "of the upload differs from the SHA-256 of the received bytes").Try("begin another upload")

// verify compares the SHA-256 of the backend object with the announced one.
func (s *Service) verify(ctx context.Context, u Upload, size int64) error {
	sum := sha256.New()
	offset := int64(0)
	if u.hash != nil && sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(u.hash) == nil { //nolint:forcetypeassert // hash/sha256 documents it
		offset = u.hashed
	} else {
		sum.Reset()
	}
	from, err := s.Blobs.Get(ctx, u.ID, offset, -1)
	if err != nil {
		return Unavailable(wrap(err, "reading the upload", u.ID))
	}
	defer from.Close() //nolint:errcheck // it was read
	for offset < size {
		n, err := io.CopyN(sum, from, min(hashStep, size-offset))
		offset += n
		if err != nil {
			return errors.Join(Unavailable(wrap(errors.Join(err, ctx.Err()), "reading the upload", u.ID)), s.storeHash(ctx, u, offset, sum))
		}
		if offset < size {
			if err := s.storeHash(ctx, u, offset, sum); err != nil {
				return err
			}
		}
	}
	if !bytes.Equal(sum.Sum(nil), u.SHA256) {
		return errDigest
	}
	return nil
}

func (s *Service) storeHash(ctx context.Context, u Upload, offset int64, sum hash.Hash) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	state, err := sum.(encoding.BinaryMarshaler).MarshalBinary() //nolint:forcetypeassert // hash/sha256 documents it
	if err == nil {
		_, err = s.DB.Exec(ctx, storeHash, u.ID, offset, state)
	}
	return wrap(err, "storing the progress of", u.ID)
}

// afterVerify aborts an upload that has other bytes: its parts cannot be replaced any more.
func (s *Service) afterVerify(ctx context.Context, at Scope, u Upload, err error) error {
	if errors.Is(err, errDigest) {
		return errors.Join(err, s.AbortUpload(ctx, at, u.ID))
	}
	return err
}

// finish makes the backend object a file, and stores the result in the same transaction.
func (s *Service) finish(ctx context.Context, at Scope, u Upload, size int64, c Condition, k keyed[Uploaded]) (r Uploaded, err error) {
	first := &pgx.Batch{}
	k.queueClaim(first)
	err = s.inProject(ctx, first, at, u.Path, func(tx pg.Queryer, w walked) error {
		now, err := uploadOf(ctx, tx, lockUpload, at, u.ID)
		switch {
		case err != nil:
			return err
		case now.result != nil: // by another call
			r = *now.result
			return k.end(ctx, tx, r)
		}
		if _, err := w.writable(c); err != nil {
			return err
		}
		// Before anything is metered, because a part that is being stored may have locked its row.
		if _, err := tx.Exec(ctx, deleteParts, u.ID); err != nil {
			return err
		}
		f := NewFile{Path: u.Path, MediaType: u.MediaType, Size: size, SHA256: u.SHA256, Metadata: u.Metadata, If: u.If}
		if r.Object, r.Created, err = s.useObject(ctx, tx, at, w, u.ID, f); err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(finishUpload, u.ID, r)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		failpoint.Hit("storage.complete.before_commit")
		return k.end(ctx, tx, r)
	})
	if err == nil {
		failpoint.Hit("storage.complete.after_commit")
	}
	return r, wrap(err, "completing the upload", u.ID)
}

// AbortUpload gives the reserved bytes of an upload back, and removes its parts. It has no effect on an aborted one, and fails
// for a completed one.
func (s *Service) AbortUpload(ctx context.Context, at Scope, id uuid.UUID) error {
	return s.abort(ctx, at, id, keyed[Upload]{})
}

// Abort is AbortUpload for a request that may be repeated.
func (s *Service) Abort(ctx context.Context, ch identity.Change[Upload], id uuid.UUID) error {
	return s.abort(ctx, ScopeOf(ch.Caller), id, keyed[Upload]{s.Identity, &ch})
}

func (s *Service) abort(ctx context.Context, at Scope, id uuid.UUID, k keyed[Upload]) error {
	var u Upload
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) (err error) {
		if err = k.claim(ctx, tx); err != nil {
			return err
		}
		if err = s.lockClosed(ctx, tx, at); err != nil {
			return err
		}
		if u, err = uploadOf(ctx, tx, selectAny, at, id); err != nil {
			return err
		}
		if u.State == Completed {
			return closed(id)
		}
		if _, err = tx.Exec(ctx, abortUpload, id, abortedFor); err != nil {
			return err
		}
		if err = s.unreserve(ctx, tx, at, id); err != nil {
			return err
		}
		return k.end(ctx, tx, u)
	})
	if err != nil {
		return wrap(err, "aborting the upload", id)
	}
	failpoint.Hit("storage.abort.after_commit")
	return Unavailable(wrap(s.Blobs.Abort(ctx, u.blob()), "aborting the upload", id))
}

// unreserve ends the reservation and deletes the parts of an upload. The cleanup job deletes the backend object, if there is
// one.
func (s *Service) unreserve(ctx context.Context, tx pg.Queryer, at Scope, id uuid.UUID) error {
	if _, err := tx.Exec(ctx, deleteParts, id); err != nil {
		return err
	}
	return s.endReservation(ctx, tx, at, id)
}
