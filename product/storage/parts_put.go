package storage

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/parts"
)

// PutPart stores a part, or replaces one. The part has arrived when the method returns. sum is the SHA-256 of its bytes, or
// nil. The size may be negative where the upload determines it.
func (s *Service) PutPart(ctx context.Context, at Scope, id uuid.UUID, number int, body io.Reader, size int64, sum []byte) (Part, error) {
	u, err := s.openUpload(ctx, at, id)
	if err == nil {
		size, err = u.layout().SizeOf(number, size)
	}
	if err == nil && u.Size < 0 {
		err = s.reserveParts(ctx, at, u, []PartRequest{{Number: number, Size: size}})
	}
	if err != nil {
		return Part{}, err
	}
	from := parts.NewReader(body, size, sum)
	stored, err := s.Blobs.PutPart(ctx, u.blob(), number, from, size)
	if err != nil {
		return Part{}, partFailure(u, from, err)
	}
	failpoint.Hit("storage.part.after_object")
	p, err := pg.One(ctx, s.DB, "part", storePart, scanPart, id, number, size, from.Sum(), stored.Tag)
	if errs.CodeOf(err) == errs.NotFound { // it was completed or aborted meanwhile
		err = gone(s.openUpload(ctx, at, id))
	}
	return p.Part, err
}

func gone(u Upload, err error) error {
	if err == nil {
		err = closed(u.ID)
	}
	return err
}

func partFailure(u Upload, from *parts.Reader, err error) error {
	switch {
	case from.Err() != nil: // the adapter reports its own error
		return from.Err()
	case errors.Is(err, blob.ErrSize):
		return errs.New(errs.BadRequest, "the body has another length than the part").Try("send the part again").Because(err)
	case errors.Is(err, blob.ErrNotFound): // the object store has joined the parts, or removed them
		return errs.New(errs.Conflict, "the upload %s is being completed or has ended", u.ID).At("upload_id").Because(err)
	}
	return Unavailable(wrap(err, "storing a part of", u.ID))
}

// PartRequest describes a part that a client will send.
type PartRequest struct {
	Number int
	Size   int64
	SHA256 []byte
}

// PartTarget names the receiver of a part: the object store, or the server where the object store signs nothing.
type PartTarget struct {
	Number int
	Direct bool
	Signed blob.Signed
}

// PartTargets returns where a client sends parts. The signature of a URL covers size and SHA-256 of its part.
func (s *Service) PartTargets(ctx context.Context, at Scope, id uuid.UUID, requested []PartRequest) ([]PartTarget, error) {
	u, err := s.openUpload(ctx, at, id)
	if err != nil {
		return nil, err
	}
	if err := u.accepts(requested); err != nil {
		return nil, err
	}
	targets, err := s.signParts(ctx, at, u, requested)
	if err != nil || !targets[0].Direct {
		return targets, err
	}
	if u.Size < 0 {
		if err := s.reserveParts(ctx, at, u, requested); err != nil {
			return nil, err
		}
	}
	var numbers []int32
	var sizes []int64
	var sums [][]byte
	for _, p := range requested {
		numbers, sizes, sums = append(numbers, int32(p.Number)), append(sizes, p.Size), append(sums, p.SHA256) //nolint:gosec // up to MaxParts
	}
	_, err = s.DB.Exec(ctx, expectParts, id, numbers, sizes, sums)
	return targets, wrap(err, "announcing parts of", id)
}

// accepts returns an error for parts that the upload cannot have.
func (u Upload) accepts(requested []PartRequest) error {
	if len(requested) == 0 {
		return errs.Invalid("parts", "is empty")
	}
	numbers := make([]int, 0, len(requested))
	for _, p := range requested {
		if _, err := u.layout().SizeOf(p.Number, p.Size); err != nil || p.Size < 0 {
			return errs.Invalid("parts", "has no possible number or size: part %d with %d bytes", p.Number, p.Size).Because(err)
		}
		if len(p.SHA256) != sha256.Size {
			return errs.Invalid("parts", "has no SHA-256 for part %d", p.Number)
		}
		numbers = append(numbers, p.Number)
	}
	slices.Sort(numbers)
	if len(slices.Compact(numbers)) < len(requested) {
		return errs.Invalid("parts", "has a part twice")
	}
	return nil
}

func (s *Service) signParts(ctx context.Context, at Scope, u Upload, requested []PartRequest) ([]PartTarget, error) {
	life := s.Limits(at.Tenant, at.Project).SignedURL
	targets := make([]PartTarget, 0, len(requested))
	direct := true
	for _, p := range requested {
		t := PartTarget{Number: p.Number, Direct: direct}
		if direct {
			signed, err := s.Blobs.Sign(ctx, blob.Request{Method: http.MethodPut, ID: u.ID, Upload: u.handle, Part: p.Number, Size: p.Size, SHA256: p.SHA256, Life: life})
			switch {
			case errors.Is(err, blob.ErrUnsigned):
				direct, t.Direct = false, false
			case err != nil:
				return nil, Unavailable(wrap(err, "signing a part of", u.ID))
			}
			t.Signed = signed
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// reserveParts reserves the bytes of parts of an upload that has announced no size. A part that is sent again needs what it
// exceeds its predecessors by.
func (s *Service) reserveParts(ctx context.Context, at Scope, u Upload, requested []PartRequest) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := s.lock(ctx, tx, at, nil); err != nil {
			return err
		}
		b := &pgx.Batch{}
		var more int64
		for _, p := range requested {
			var total, reserved int64
			switch err := tx.QueryRow(ctx, selectReserved, u.ID, p.Number).Scan(&total, &reserved); {
			case errors.Is(err, pgx.ErrNoRows):
				return noUpload()
			case err != nil:
				return err
			}
			if p.Size <= reserved {
				continue
			}
			more += p.Size - reserved
			if most := s.Limits(at.Tenant, at.Project).ObjectBytes; total+more > most {
				return tooLarge(most)
			}
			b.Queue(reservePart, u.ID, p.Number, at.Tenant, p.Size)
		}
		if more == 0 {
			return nil
		}
		b.Queue(growReservation, u.ID, more).Exec(pg.OrElse(errExpired))
		s.queueUsage(b, at, change{reserved: more})
		return tx.SendBatch(ctx, b).Close()
	})
	return wrap(err, "reserving bytes for", u.ID)
}

// PartsOf returns the parts of an upload that have arrived, by number.
func (s *Service) PartsOf(ctx context.Context, at Scope, id uuid.UUID, after, limit int) ([]Part, error) {
	u, err := s.UploadOf(ctx, at, id)
	if err != nil {
		return nil, err
	}
	var expected bool
	if err := s.DB.QueryRow(ctx, partsExpected, id).Scan(&expected); err != nil {
		return nil, wrap(err, "reading the parts of", id)
	}
	if expected && u.State == Open {
		if err := s.findArrived(ctx, u); err != nil {
			return nil, err
		}
	}
	rows, err := pg.List(ctx, s.DB, "parts", selectArrived, scanPart, id, after, limit)
	parts := make([]Part, 0, len(rows))
	for _, p := range rows {
		parts = append(parts, p.Part)
	}
	return parts, err
}

// findArrived records which parts clients have sent to the object store themselves.
func (s *Service) findArrived(ctx context.Context, u Upload) error {
	rows, err := s.parts(ctx, u)
	if err != nil {
		return err
	}
	inStore, err := s.inStore(ctx, u)
	if err != nil {
		return err
	}
	var found []blob.Part
	for _, p := range rows {
		if stored, ok := p.in(inStore); ok && !p.arrived {
			found = append(found, stored)
		}
	}
	return s.recordParts(ctx, u, found)
}

func (s *Service) parts(ctx context.Context, u Upload) ([]storedPart, error) {
	return pg.List(ctx, s.DB, "parts", selectParts, scanPart, u.ID, 0, blob.MaxParts)
}

// inStore returns the parts in the object store by number, or nil where it has joined them already.
func (s *Service) inStore(ctx context.Context, u Upload) (map[int]blob.Part, error) {
	list, err := s.Blobs.Parts(ctx, u.blob())
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return nil, nil //nolint:nilnil // joined parts are no list
	case err != nil:
		return nil, Unavailable(wrap(err, "listing the parts of", u.ID))
	}
	byNumber := make(map[int]blob.Part, len(list))
	for _, p := range list {
		byNumber[p.Number] = p
	}
	return byNumber, nil
}

// in returns the part in the object store, if its bytes are those of the row. The object store has compared the SHA-256 of a
// part that a client has sent to it, unless it supports no checksums.
func (p storedPart) in(store map[int]blob.Part) (blob.Part, bool) {
	found, ok := store[p.Number]
	if !ok || found.Size != p.Size {
		return found, false
	}
	compared := found.SHA256 == base64.StdEncoding.EncodeToString(p.SHA256)
	if p.arrived {
		return found, compared || slices.Contains(p.tags, found.Tag)
	}
	return found, compared || found.SHA256 == ""
}

func (s *Service) recordParts(ctx context.Context, u Upload, found []blob.Part) error {
	var numbers []int32
	var tags []string
	for _, p := range found {
		numbers, tags = append(numbers, int32(p.Number)), append(tags, p.Tag) //nolint:gosec // up to MaxParts
	}
	_, err := s.DB.Exec(ctx, partsArrived, u.ID, numbers, tags)
	return wrap(err, "recording the parts of", u.ID)
}
