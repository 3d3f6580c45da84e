// Package s3 stores backups in a bucket of an S3 provider.
package s3

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/gpuaas/gpuaas/platform/backup/store"
)

// Config names a bucket.
type Config struct {
	Endpoint       *url.URL // http is for tests
	Region, Bucket string
	Prefix         string // without a slash at its ends
	PathStyle      bool   // the bucket is in the path and not in the name of the server
	Access, Secret string
	Roots          *x509.CertPool // nil: those of the system
}

const (
	// segment is the largest segment of WAL that one request sends, from memory. Only such a request can fail if the object
	// exists.
	segment = 32 << 20
	// single also has space for what the encryption adds.
	single = segment + 1<<20
	// part is the memory for a larger file. It limits such a file to 625 GiB.
	part = 64 << 20
)

// Store is a bucket. The adapter reads and writes below the prefix only.
type Store struct {
	core   minio.Core
	bucket string
	prefix string
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Limited = (*Store)(nil)
)

// MaxExclusive returns the largest size of a segment.
func (s *Store) MaxExclusive() int64 { return segment }

// New makes a client. It sends nothing.
func New(c Config) (*Store, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // of the standard library
	if c.Roots != nil {
		transport.TLSClientConfig.RootCAs = c.Roots
	}
	lookup := minio.BucketLookupDNS
	if c.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(c.Endpoint.Host, &minio.Options{
		Creds: credentials.NewStaticV4(c.Access, c.Secret, ""), Secure: c.Endpoint.Scheme == "https", Region: c.Region, BucketLookup: lookup, Transport: transport,
	})
	if err != nil {
		return nil, fmt.Errorf("making a client of the object store: %w", err)
	}
	return &Store{core: minio.Core{Client: client}, bucket: c.Bucket, prefix: c.Prefix}, nil
}

func (s *Store) key(name string) string { return path.Join(s.prefix, name) }

// Put sends a small file in one request that fails if the object exists. A larger one is sent in parts, and an error
// aborts them; its name has a random part, so that no other writer has the same.
func (s *Store) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	if exists, err := s.exists(ctx, name); exists || err != nil {
		return errors.Join(existsError(exists), err)
	}
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(write(w)) }()
	err := s.send(ctx, name, r)
	_ = r.CloseWithError(errAborted) // ends the writer
	return mapped(err)
}

var errAborted = errors.New("the object store has not accepted the file")

func (s *Store) send(ctx context.Context, name string, r io.Reader) error {
	var first bytes.Buffer
	n, err := io.Copy(&first, io.LimitReader(r, single+1))
	if err != nil {
		return err
	}
	options := minio.PutObjectOptions{ContentType: "application/octet-stream", PartSize: part}
	if n <= single {
		options.SetMatchETagExcept("*")
		_, err = s.core.Client.PutObject(ctx, s.bucket, s.key(name), &first, n, options)
		return err
	}
	_, err = s.core.Client.PutObject(ctx, s.bucket, s.key(name), io.MultiReader(&first, r), -1, options)
	return err
}

func existsError(exists bool) error {
	if exists {
		return store.ErrExists
	}
	return nil
}

func (s *Store) exists(ctx context.Context, name string) (bool, error) {
	_, err := s.core.StatObject(ctx, s.bucket, s.key(name), minio.StatObjectOptions{})
	if err = mapped(err); errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Get opens an object.
func (s *Store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	body, _, _, err := s.core.GetObject(ctx, s.bucket, s.key(name), minio.GetObjectOptions{})
	return body, mapped(err)
}

// List returns the objects below a folder.
func (s *Store) List(ctx context.Context, folder string) (entries []store.Entry, err error) {
	for o := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.key(folder) + "/", Recursive: true}) {
		if o.Err != nil {
			return nil, mapped(o.Err)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(o.Key, s.prefix), "/")
		entries = append(entries, store.Entry{Name: name, Size: o.Size, Modified: o.LastModified.UTC()})
	}
	slices.SortFunc(entries, func(a, b store.Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, ctx.Err() // an ended context ends the list without an error
}

// Delete removes an object.
func (s *Store) Delete(ctx context.Context, name string) error {
	err := mapped(s.core.RemoveObject(ctx, s.bucket, s.key(name), minio.RemoveObjectOptions{}))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// Clean aborts uploads in parts whose writer was killed.
func (s *Store) Clean(ctx context.Context, before time.Time) (err error) {
	for u := range s.core.ListIncompleteUploads(ctx, s.bucket, s.prefix, true) {
		if u.Err != nil {
			return errors.Join(err, mapped(u.Err))
		}
		if u.Initiated.Before(before) {
			err = errors.Join(err, mapped(s.core.AbortMultipartUpload(ctx, s.bucket, u.Key, u.UploadID)))
		}
	}
	return err
}

// mapped replaces an error of the provider by one of the port.
func mapped(err error) error {
	var response minio.ErrorResponse
	if !errors.As(err, &response) {
		return err
	}
	switch {
	case response.Code == minio.NoSuchKey || response.Code == "NoSuchUpload":
		return store.ErrNotFound
	case response.StatusCode == http.StatusPreconditionFailed:
		return store.ErrExists
	case response.StatusCode == http.StatusInsufficientStorage || response.Code == "QuotaExceeded":
		return fmt.Errorf("%w: %s", store.ErrFull, response.Message)
	}
	return fmt.Errorf("the object store rejects the request with %s: %w", response.Code, err)
}
