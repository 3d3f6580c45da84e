package storage

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

const (
	// largeFile is the size from which a file is sent in parts.
	largeFile = 32 << 20
	// partSize is that of the parts, unless their number would exceed the limit.
	partSize = 16 << 20
	// signedParts is the number of parts of one request for their targets. Signatures are valid for minutes.
	signedParts = 16
)

// summed has the SHA-256 of a local file and of its parts.
type summed struct {
	size  int64
	part  int64
	whole []byte
	parts [][]byte
}

func partSizeOf(size int64) int64 {
	const unit = 1 << 20
	least := (size + blob.MaxParts - 1) / blob.MaxParts
	return max(partSize, (least+unit-1)/unit*unit)
}

// sumFile reads a file once.
func sumFile(ctx context.Context, f io.ReaderAt, size int64) (summed, error) {
	s := summed{size: size, part: partSizeOf(size)}
	whole := sha256.New()
	for offset := int64(0); offset < size || offset == 0; offset += s.part {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		part := sha256.New()
		n := min(s.part, size-offset)
		if _, err := io.Copy(io.MultiWriter(whole, part), io.NewSectionReader(f, offset, n)); err != nil {
			return s, err
		}
		s.parts = append(s.parts, part.Sum(nil))
	}
	s.whole = whole.Sum(nil)
	return s, nil
}

// send uploads a local file. A large one continues an upload of the same bytes to the same path that was interrupted: the
// list of the server shows which parts it has.
func (t *transfer) send(ctx context.Context, from string, to place) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	s, err := sumFile(ctx, f, info.Size())
	if err != nil {
		return fmt.Errorf("reading %s: %w", from, err)
	}
	if s.size < t.large {
		return t.sendWhole(ctx, f, s, to)
	}
	return t.sendParts(ctx, f, s, to)
}

func (t *transfer) sendWhole(ctx context.Context, f io.ReaderAt, s summed, to place) error {
	digest := digestOf(s.whole)
	_, err := client.SendLong[oapi.StorageObject](ctx, t.c, func(ctx context.Context) (*http.Response, error) {
		return t.c.UploadStorageWithBody(ctx, &oapi.UploadStorageParams{Path: to.path, ContentDigest: &digest}, "application/octet-stream",
			t.counted(io.NewSectionReader(f, 0, s.size)), to.in(t.c), length(s.size))
	})
	return err
}

// length announces the length of a body, whose type does not show it.
func length(n int64) oapi.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		if r.ContentLength = n; n == 0 {
			r.Body = http.NoBody
		}
		return nil
	}
}

func digestOf(sum []byte) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"
}

func (t *transfer) sendParts(ctx context.Context, f io.ReaderAt, s summed, to place) error {
	u, err := t.find(ctx, s, to)
	if err != nil {
		return err
	}
	// Another process may have replaced a part meanwhile, so that the server misses it at the end.
	for try := 1; ; try++ {
		if err := t.sendMissing(ctx, f, s, to, u); err != nil {
			return err
		}
		err := t.complete(ctx, u, s.size, to)
		if err == nil || try == 3 || client.CodeOf(err) != errs.Conflict {
			return err
		}
	}
}

// find returns the interrupted upload of the same bytes, or begins one.
func (t *transfer) find(ctx context.Context, s summed, to place) (uuid.UUID, error) {
	sum := hex.EncodeToString(s.whole)
	open, err := client.ReadAll[oapi.StorageUpload](ctx, t.c, 0, uploads(t.c, to))
	if err != nil {
		return uuid.Nil, err
	}
	for _, u := range open.Items {
		if u.Path == to.path && output.ValueOrZero(u.Sha256) == sum && output.ValueOrZero(u.PartSizeBytes) == s.part && output.ValueOrZero(u.SizeBytes) == s.size {
			return u.Id, nil
		}
	}
	made, err := client.Change[oapi.StorageUpload](ctx, t.c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return t.c.CreateStorageUpload(ctx, nil, oapi.StorageUploadRequest{Path: to.path, SizeBytes: s.size, PartSizeBytes: &s.part, Sha256: &sum}, to.in(t.c), once)
	})
	return made.Value.Id, err
}

// arrived returns the SHA-256 of the parts that the server has, by number.
func (t *transfer) arrived(ctx context.Context, u uuid.UUID, to place) (map[int]string, error) {
	all, err := client.ReadAll[oapi.StoragePart](ctx, t.c, 0, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return t.c.ListStorageUploadParts(ctx, u, &oapi.ListStorageUploadPartsParams{Limit: size, Cursor: cursor}, to.in(t.c))
	})
	has := map[int]string{}
	for _, p := range all.Items {
		has[p.Number] = p.Sha256
	}
	return has, err
}

// sendMissing sends the parts that have not arrived, several at the same time.
func (t *transfer) sendMissing(ctx context.Context, f io.ReaderAt, s summed, to place, u uuid.UUID) error {
	has, err := t.arrived(ctx, u, to)
	if err != nil {
		return err
	}
	var missing []oapi.StoragePartRequest
	for i, sum := range s.parts {
		p := oapi.StoragePartRequest{Number: i + 1, SizeBytes: min(s.part, s.size-int64(i)*s.part), Sha256: hex.EncodeToString(sum)}
		if has[p.Number] == p.Sha256 {
			t.progress.done.Add(p.SizeBytes)
			continue
		}
		missing = append(missing, p)
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(t.parallel)
	for batch := range slices.Chunk(missing, signedParts) {
		// The targets are requested when the first part of them can be sent: signatures expire.
		targets, err := t.targets(ctx, u, batch, to)
		if err != nil {
			return errors.Join(all.Wait(), err)
		}
		for i, target := range targets {
			all.Go(func() error {
				t.parts <- struct{}{}
				defer func() { <-t.parts }()
				return t.sendPart(ctx, u, target, batch[i], io.NewSectionReader(f, int64(batch[i].Number-1)*s.part, batch[i].SizeBytes), to)
			})
		}
	}
	return all.Wait()
}

func (t *transfer) targets(ctx context.Context, u uuid.UUID, parts []oapi.StoragePartRequest, to place) ([]oapi.StoragePartTarget, error) {
	got, err := client.SendLong[oapi.StoragePartTargets](ctx, t.c, func(ctx context.Context) (*http.Response, error) {
		return t.c.SignStorageParts(ctx, u, nil, oapi.StoragePartsRequest{Parts: parts}, to.in(t.c))
	})
	if err == nil && len(got.Value.Targets) != len(parts) {
		err = fmt.Errorf("the server returned %d targets for %d parts", len(got.Value.Targets), len(parts))
	}
	return got.Value.Targets, err
}

func (t *transfer) sendPart(ctx context.Context, u uuid.UUID, target oapi.StoragePartTarget, p oapi.StoragePartRequest, from *io.SectionReader, to place) error {
	if target.Direct {
		return t.sendDirect(ctx, u, target, p, from, to)
	}
	_, err := client.SendLong[oapi.StoragePart](ctx, t.c, func(ctx context.Context) (*http.Response, error) {
		_, _ = from.Seek(0, io.SeekStart) // to the beginning of a section
		digest := target.Headers["Content-Digest"]
		return t.c.UploadStoragePartWithBody(ctx, u, p.Number, &oapi.UploadStoragePartParams{ContentDigest: &digest}, "application/octet-stream", t.counted(from), to.in(t.c), length(p.SizeBytes))
	})
	return err
}

const directTries = 5

// sendDirect sends a part to the object store. An expired signature is renewed.
func (t *transfer) sendDirect(ctx context.Context, u uuid.UUID, target oapi.StoragePartTarget, p oapi.StoragePartRequest, from *io.SectionReader, to place) error {
	for try := 1; ; try++ {
		_, _ = from.Seek(0, io.SeekStart) // to the beginning of a section
		err := t.putDirect(ctx, target, p, from)
		if err == nil || try == directTries || ctx.Err() != nil {
			return err
		}
		if err := client.Sleep(ctx, time.Duration(try*try)*250*time.Millisecond); err != nil {
			return err
		}
		renewed, err := t.targets(ctx, u, []oapi.StoragePartRequest{p}, to)
		if err != nil {
			return err
		}
		target = renewed[0]
	}
}

func (t *transfer) putDirect(ctx context.Context, target oapi.StoragePartTarget, p oapi.StoragePartRequest, from io.Reader) error {
	r, err := http.NewRequestWithContext(ctx, target.Method, target.Url, t.counted(from))
	if err != nil {
		return err
	}
	r.ContentLength = p.SizeBytes
	for name, value := range target.Headers {
		r.Header.Set(name, value)
	}
	resp, err := t.direct.Do(r)
	if err != nil {
		return fmt.Errorf("sending part %d to the object store: %w", p.Number, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the object store responded %s to part %d: %s", resp.Status, p.Number, strings.TrimSpace(strconv.Quote(string(text))))
	}
	return nil
}

// complete repeats the completion while the server reads the file: each repetition continues.
func (t *transfer) complete(ctx context.Context, u uuid.UUID, size int64, to place) error {
	tries := 3 + size/(1<<30)
	for {
		_, err := client.Change[oapi.StorageObject](ctx, t.c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return t.c.CompleteStorageUpload(ctx, u, nil, to.in(t.c), once)
		})
		if tries--; err == nil || tries == 0 || client.CodeOf(err) != errs.Unavailable && client.CodeOf(err) != errs.IdempotencyInFlight || ctx.Err() != nil {
			return err
		}
	}
}
