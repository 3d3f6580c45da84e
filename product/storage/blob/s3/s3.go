// Package s3 stores backend objects in a bucket of an S3 provider. The key of an object is the prefix and its id, so that
// keys sort as ids do. The adapter never lists, reads or writes outside the prefix.
package s3

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// Server-side encryption.
const (
	SSEAES256 = "AES256"
	SSEKMS    = "aws:kms"
)

// Config names a bucket.
type Config struct {
	Endpoint *url.URL // http is for tests and the local machine
	Region   string
	Bucket   string
	Prefix   string // without a slash at its end
	// PathStyle addresses the bucket in the path and not in the host name.
	PathStyle bool
	SSE       string // SSEAES256, SSEKMS, or empty: as the bucket is configured
	KMSKey    string // of SSEKMS; empty: the provider's own
	// Unchecked omits checksums, for providers that reject them.
	Unchecked bool
	// Credentials returns the access key and the secret key. It is called again after credentialLife.
	Credentials func(context.Context) (access, secret string, err error)
	Roots       *x509.CertPool // of the endpoint; nil: those of the system
	Clock       clock.Clock
}

const (
	// retries is the number of attempts of a request whose body can be sent again.
	retries = 4
	// small objects are sent from memory, so that they can be sent again.
	small = 1 << 20
	// unknownPart is the memory for an object whose size is not announced. It limits such objects to 156 GiB.
	unknownPart = 16 << 20
	// largePart is the smallest part of an object that is too large for one request.
	largePart = 1 << 30
	// visibleAfter is the time in which a completion whose response was lost makes its object visible.
	visibleAfter = 2 * time.Second
	queryEvery   = 100 * time.Millisecond
	// abortWithin limits the removal of an upload after its failure.
	abortWithin = 30 * time.Second
)

// Store is a bucket.
type Store struct {
	core   *minio.Core
	bucket string
	prefix string
	sse    encrypt.ServerSide
	noSums bool // providers that reject checksums
	clock  clock.Clock

	pageSize             int // of lists; 0: as the provider decides
	single, partOfSingle int64
	visible              time.Duration
}

var _ blob.Store = (*Store)(nil)

// New makes a client. It sends nothing.
func New(c Config) (*Store, error) {
	s := &Store{bucket: c.Bucket, prefix: c.Prefix, noSums: c.Unchecked, clock: c.Clock, single: blob.MaxPart, partOfSingle: largePart, visible: visibleAfter}
	if s.prefix != "" {
		s.prefix += "/"
	}
	switch c.SSE {
	case SSEAES256:
		s.sse = encrypt.NewSSE()
	case SSEKMS:
		s.sse, _ = encrypt.NewSSEKMS(c.KMSKey, nil) // fails only for a context that cannot be encoded
	}
	lookup := minio.BucketLookupDNS
	if c.PathStyle {
		lookup = minio.BucketLookupPath
	}
	core, err := minio.NewCore(c.Endpoint.Host, &minio.Options{
		Creds:  credentials.New(&provider{resolve: c.Credentials, clock: c.Clock}),
		Secure: c.Endpoint.Scheme == "https", Transport: newTransport(c.Roots), Region: c.Region, BucketLookup: lookup,
		TrailingHeaders: !c.Unchecked, MaxRetries: retries,
	})
	if err != nil {
		return nil, fmt.Errorf("making a client of the object store: %w", err)
	}
	s.core = core
	return s, nil
}

func (s *Store) key(id uuid.UUID) string { return s.prefix + id.String() }

// idOf returns the id of a key, unless another program has made the key.
func (s *Store) idOf(key string) (uuid.UUID, bool) {
	name, ok := strings.CutPrefix(key, s.prefix)
	id, err := uuid.Parse(name)
	return id, ok && err == nil && id.String() == name
}

func (s *Store) options() minio.PutObjectOptions {
	return minio.PutObjectOptions{ContentType: "application/octet-stream", ServerSideEncryption: s.sse}
}

// Put sends an object in one request where its size is announced and allows it.
func (s *Store) Put(ctx context.Context, id uuid.UUID, r io.Reader, size int64) (int64, error) {
	from := blob.NewExact(ctx, r, size)
	switch {
	case size < 0:
		return s.putUnknown(ctx, id, from)
	case size > s.single:
		return size, s.putParts(ctx, id, from, size)
	case size <= small:
		content, err := io.ReadAll(from)
		if err != nil {
			return 0, mapped(ctx, err, from)
		}
		return size, s.putOne(ctx, id, bytes.NewReader(content), size, from)
	}
	return size, s.putOne(ctx, id, from, size, from)
}

// putOne sends all bytes in one request. It can be sent again if body is an io.Seeker.
func (s *Store) putOne(ctx context.Context, id uuid.UUID, body io.Reader, size int64, from *blob.Exact) error {
	options := s.options()
	if !s.noSums && size > 0 {
		options.Checksum, options.DisableContentSha256 = minio.ChecksumCRC32C, true // the trailer replaces signed chunks
	}
	_, err := s.core.PutObject(ctx, s.bucket, s.key(id), body, size, "", "", options)
	return mapped(ctx, err, from)
}

// putUnknown sends parts from memory until the reader ends.
func (s *Store) putUnknown(ctx context.Context, id uuid.UUID, from *blob.Exact) (int64, error) {
	buffer := make([]byte, unknownPart)
	n, err := io.ReadFull(from, buffer)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return int64(n), s.putOne(ctx, id, bytes.NewReader(buffer[:n]), int64(n), from)
	}
	if err != nil {
		return 0, mapped(ctx, err, from)
	}
	err = s.upload(ctx, id, func(u blob.Upload, number int) (blob.Part, error) {
		if number > 1 {
			if n, err = io.ReadFull(from, buffer); errors.Is(err, io.EOF) {
				return blob.Part{}, io.EOF
			} else if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				return blob.Part{}, mapped(ctx, err, from)
			}
		}
		return s.putPart(ctx, u, number, bytes.NewReader(buffer[:n]), int64(n), nil)
	})
	return from.Len(), err
}

// putParts sends parts as they are read, because one request is limited to MaxPart.
func (s *Store) putParts(ctx context.Context, id uuid.UUID, from *blob.Exact, size int64) error {
	part := max(s.partOfSingle, (size+blob.MaxParts-1)/blob.MaxParts)
	return s.upload(ctx, id, func(u blob.Upload, number int) (blob.Part, error) {
		rest := size - int64(number-1)*part
		if rest <= 0 {
			return blob.Part{}, io.EOF
		}
		n := min(part, rest)
		return s.putPart(ctx, u, number, io.LimitReader(from, n), n, from)
	})
}

// upload calls next for each part until it returns io.EOF, and completes or aborts the upload.
func (s *Store) upload(ctx context.Context, id uuid.UUID, next func(u blob.Upload, number int) (blob.Part, error)) error {
	u, err := s.Begin(ctx, id)
	if err != nil {
		return err
	}
	var parts []blob.Part
	for err == nil {
		var p blob.Part
		if p, err = next(u, len(parts)+1); err == nil {
			parts = append(parts, p)
		}
	}
	if errors.Is(err, io.EOF) {
		err = s.Complete(ctx, u, parts)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
		defer cancel()
		return errors.Join(err, s.Abort(ctx, u))
	}
	return nil
}

// Get streams a range.
func (s *Store) Get(ctx context.Context, id uuid.UUID, offset, length int64) (io.ReadCloser, error) {
	if length == 0 { // HTTP has no empty range
		_, err := s.Stat(ctx, id)
		return http.NoBody, err
	}
	var options minio.GetObjectOptions
	var err error
	switch {
	case length > 0 && length <= math.MaxInt64-offset:
		err = options.SetRange(offset, offset+length-1)
	case offset > 0:
		err = options.SetRange(offset, 0) // up to the end
	}
	if err != nil {
		return nil, err
	}
	body, _, _, err := s.core.GetObject(ctx, s.bucket, s.key(id), options)
	var response minio.ErrorResponse
	if errors.As(err, &response) && response.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return http.NoBody, nil
	}
	return body, mapped(ctx, err, nil)
}

// Stat describes a backend object.
func (s *Store) Stat(ctx context.Context, id uuid.UUID) (blob.Info, error) {
	info, err := s.core.StatObject(ctx, s.bucket, s.key(id), minio.StatObjectOptions{})
	if err = mapped(ctx, err, nil); errors.Is(err, blob.ErrNotFound) {
		// A response to HEAD has no body, and is the same where the bucket is missing.
		body, _, _, absent := s.core.GetObject(ctx, s.bucket, s.key(id), minio.GetObjectOptions{})
		if absent == nil {
			return blob.Info{}, errors.Join(errors.New("the object store contradicts itself"), body.Close())
		}
		return blob.Info{}, mapped(ctx, absent, nil)
	}
	if err != nil {
		return blob.Info{}, err
	}
	return blob.Info{ID: id, Size: info.Size, Modified: info.LastModified.UTC()}, nil
}

// Delete removes a backend object. In a bucket with versions the bytes stay at the provider.
func (s *Store) Delete(ctx context.Context, id uuid.UUID) error {
	err := mapped(ctx, s.core.RemoveObject(ctx, s.bucket, s.key(id), minio.RemoveObjectOptions{}), nil)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	return err
}

// List ignores keys that are no ids.
func (s *Store) List(ctx context.Context, after uuid.UUID) iter.Seq2[blob.Info, error] {
	no := false
	options := minio.ListObjectsOptions{Prefix: s.prefix, Recursive: true, MaxKeys: s.pageSize, FetchOwner: &no}
	if after != uuid.Nil {
		options.StartAfter = s.key(after)
	}
	return func(yield func(blob.Info, error) bool) {
		for o := range s.core.ListObjectsIter(ctx, s.bucket, options) {
			if o.Err != nil {
				yield(blob.Info{}, mapped(ctx, o.Err, nil))
				return
			}
			if id, ok := s.idOf(o.Key); ok && !yield(blob.Info{ID: id, Size: o.Size, Modified: o.LastModified.UTC()}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil { // the client ends the list without an error
			yield(blob.Info{}, err)
		}
	}
}

// Space returns false: no operation of S3 returns the capacity.
func (*Store) Space(context.Context) (blob.Space, bool, error) { return blob.Space{}, false, nil }
