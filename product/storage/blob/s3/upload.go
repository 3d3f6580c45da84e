package s3

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"

	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// checksumHeader has the SHA-256 of a part or of an object in one request.
const checksumHeader = "X-Amz-Checksum-Sha256"

// listed is the number of parts or uploads of one response.
const listed = 1000

// Begin announces SHA-256: Amazon S3 otherwise rejects parts that have it. Each part then needs it, and so does Complete.
func (s *Store) Begin(ctx context.Context, id uuid.UUID) (blob.Upload, error) {
	options := s.options()
	if !s.noSums {
		options.UserMetadata = map[string]string{"X-Amz-Checksum-Algorithm": "SHA256"}
	}
	handle, err := s.core.NewMultipartUpload(ctx, s.bucket, s.key(id), options)
	return blob.Upload{ID: id, Handle: handle}, mapped(ctx, err, nil)
}

// PutPart sends a part as it is read.
func (s *Store) PutPart(ctx context.Context, u blob.Upload, number int, r io.Reader, size int64) (blob.Part, error) {
	if u.Handle == "" {
		return blob.Part{}, blob.ErrNotFound
	}
	if err := blob.CheckParts([]blob.Part{{Number: number, Size: size}}); err != nil || size < 0 || size > blob.MaxPart {
		return blob.Part{}, errors.Join(err, fmt.Errorf("%d bytes: %w", size, blob.ErrPart))
	}
	from := blob.NewExact(ctx, r, size)
	if size == 0 { // the client sends no body, and would not read it
		if _, err := from.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			return blob.Part{}, mapped(ctx, err, from)
		}
	}
	return s.putPart(ctx, u, number, from, size, from)
}

func (s *Store) putPart(ctx context.Context, u blob.Upload, number int, body io.Reader, size int64, from *blob.Exact) (blob.Part, error) {
	options := minio.PutObjectPartOptions{DisableContentSha256: !s.noSums} // the trailer replaces signed chunks
	switch {
	case s.noSums:
	case size == 0: // without a body there is no trailer
		options.CustomHeader = http.Header{checksumHeader: {encoded(sha256.New())}}
	default:
		sum := &summing{from: body, rest: size, hash: sha256.New(), trailer: http.Header{checksumHeader: {encoded(sha256.New())}}}
		options.Trailer = sum.trailer
		if seeker, ok := body.(io.Seeker); ok {
			body = seekable{sum, seeker, size}
		} else {
			body = sum
		}
	}
	p, err := s.core.PutObjectPart(ctx, s.bucket, s.key(u.ID), u.Handle, number, body, size, options)
	if err != nil {
		return blob.Part{}, s.partFailure(ctx, u, mapped(ctx, err, from))
	}
	return blob.Part{Number: number, Size: size, Tag: p.ETag, SHA256: sumOf(options)}, nil
}

// sumOf returns the SHA-256 that a request had in its headers or in its trailer.
func sumOf(options minio.PutObjectPartOptions) string {
	if sum := options.Trailer.Get(checksumHeader); sum != "" {
		return sum
	}
	return options.CustomHeader.Get(checksumHeader)
}

// partFailure queries the upload where the provider has ended the connection: it may have rejected the part before it read
// the body, and the response is lost then.
func (s *Store) partFailure(ctx context.Context, u blob.Upload, failure error) error {
	if !errors.Is(failure, errUnanswered) {
		return failure
	}
	_, err := s.core.ListObjectParts(ctx, s.bucket, s.key(u.ID), u.Handle, 0, 1)
	if err = mapped(ctx, err, nil); errors.Is(err, blob.ErrNotFound) {
		return err
	}
	return failure
}

func encoded(h hash.Hash) string { return base64.StdEncoding.EncodeToString(h.Sum(nil)) }

// summing computes the trailer of a request while its body is sent.
type summing struct {
	from    io.Reader
	rest    int64
	hash    hash.Hash
	trailer http.Header
}

func (s *summing) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	_, _ = s.hash.Write(p[:n]) // it never fails
	if s.rest -= int64(n); s.rest == 0 {
		s.trailer.Set(checksumHeader, encoded(s.hash))
	}
	return n, err
}

// seekable is a body that can be sent again from its beginning.
type seekable struct {
	*summing

	seeker io.Seeker
	size   int64
}

func (s seekable) Seek(offset int64, whence int) (int64, error) {
	s.hash.Reset()
	s.rest = s.size
	return s.seeker.Seek(offset, whence)
}

// Parts lists the stored parts.
func (s *Store) Parts(ctx context.Context, u blob.Upload) ([]blob.Part, error) {
	stored, err := s.stored(ctx, u)
	parts := []blob.Part{}
	for _, p := range stored {
		parts = append(parts, partOf(p))
	}
	return parts, err
}

func partOf(p minio.ObjectPart) blob.Part {
	return blob.Part{Number: p.PartNumber, Size: p.Size, Tag: strings.Trim(p.ETag, `"`), SHA256: p.ChecksumSHA256}
}

func (s *Store) stored(ctx context.Context, u blob.Upload) (all []minio.ObjectPart, err error) {
	if u.Handle == "" {
		return nil, blob.ErrNotFound
	}
	for marker := 0; ; {
		page, err := s.core.ListObjectParts(ctx, s.bucket, s.key(u.ID), u.Handle, marker, listed)
		if err != nil {
			return nil, mapped(ctx, err, nil)
		}
		all = append(all, page.ObjectParts...)
		if !page.IsTruncated || page.NextPartNumberMarker <= marker {
			return all, nil
		}
		marker = page.NextPartNumberMarker
	}
}

// Complete compares the parts before it sends their list, which also has their checksums. Where the
// upload does not exist, or has other parts, another call may have completed it: its response was lost, or it still runs.
func (s *Store) Complete(ctx context.Context, u blob.Upload, parts []blob.Part) error {
	if err := blob.CheckParts(parts); err != nil {
		return err
	}
	err := s.complete(ctx, u, parts)
	for until := s.clock.Now().Add(s.visible); errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrPart); {
		if done := s.completed(ctx, u, parts); !errors.Is(done, blob.ErrNotFound) {
			return done
		}
		if s.clock.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(queryEvery):
		}
	}
	return err
}

func (s *Store) complete(ctx context.Context, u blob.Upload, parts []blob.Part) error {
	stored, err := s.stored(ctx, u)
	if err != nil {
		return err
	}
	list, err := completeList(stored, parts)
	if err != nil {
		return err
	}
	_, err = s.core.CompleteMultipartUpload(ctx, s.bucket, s.key(u.ID), u.Handle, list, minio.PutObjectOptions{})
	return mapped(ctx, err, nil)
}

func completeList(stored []minio.ObjectPart, parts []blob.Part) (list []minio.CompletePart, err error) {
	for _, p := range parts {
		i := slices.IndexFunc(stored, func(o minio.ObjectPart) bool { return partOf(o).Same(p) })
		if i < 0 {
			return nil, fmt.Errorf("part %d: %w", p.Number, blob.ErrPart)
		}
		list = append(list, minio.CompletePart{PartNumber: p.Number, ETag: stored[i].ETag, ChecksumSHA256: stored[i].ChecksumSHA256})
		stored = stored[i+1:] // both ascend
	}
	return list, nil
}

// completed compares the object with the parts of an upload that does not exist any more. The tag of an object of parts
// ends with their number at most providers.
func (s *Store) completed(ctx context.Context, u blob.Upload, parts []blob.Part) error {
	info, err := s.core.StatObject(ctx, s.bucket, s.key(u.ID), minio.StatObjectOptions{})
	if err != nil {
		return mapped(ctx, err, nil)
	}
	var size int64
	for _, p := range parts {
		size += p.Size
	}
	switch {
	case info.Size == size:
		return nil
	case strings.HasSuffix(strings.Trim(info.ETag, `"`), "-"+strconv.Itoa(len(parts))):
		return fmt.Errorf("completed with %d bytes: %w", info.Size, blob.ErrPart)
	}
	return blob.ErrNotFound
}

// Abort removes an upload.
func (s *Store) Abort(ctx context.Context, u blob.Upload) error {
	if u.Handle == "" {
		return nil
	}
	err := mapped(ctx, s.core.AbortMultipartUpload(ctx, s.bucket, s.key(u.ID), u.Handle), nil)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	return err
}

// Uploads lists the unfinished uploads. Some providers list none for a prefix; a rule of the bucket removes theirs.
func (s *Store) Uploads(ctx context.Context, before time.Time) iter.Seq2[blob.Upload, error] {
	return func(yield func(blob.Upload, error) bool) {
		for key := ""; ; {
			// The marker of an upload within a key is left out, because versitygw rejects it. Where a page ends between two
			// uploads of one object, the second is in the next list.
			page, err := s.core.ListMultipartUploads(ctx, s.bucket, s.prefix, key, "", "", s.uploadsPage())
			if err != nil {
				yield(blob.Upload{}, mapped(ctx, err, nil))
				return
			}
			for _, o := range page.Uploads {
				id, ok := s.idOf(o.Key)
				if ok && o.Initiated.Before(before) && !yield(blob.Upload{ID: id, Handle: o.UploadID}, nil) {
					return
				}
			}
			if !page.IsTruncated || page.NextKeyMarker == key {
				return
			}
			key = page.NextKeyMarker
		}
	}
}

func (s *Store) uploadsPage() int {
	if s.pageSize > 0 {
		return s.pageSize
	}
	return listed
}
