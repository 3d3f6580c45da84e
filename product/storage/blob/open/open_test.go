package open

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/secretref/secretreftest"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/blob/files"
	"github.com/gpuaas/gpuaas/product/storage/blob/s3/s3test"
)

// A wrong configuration prevents the start and names its field. A service that cannot be reached does not.
func TestOpen(t *testing.T) {
	t.Parallel()
	all := secretreftest.Credentials(t, "https://s3.test", map[string]string{"objects": "AKIA:secret", "half": "AKIA"})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bucket := desired.Storage{Driver: "s3", Endpoint: "https://s3.test", Region: "eu-1", Bucket: "objects", SSE: "none", Checksums: true, CredentialsRef: "credential:objects"}
	for name, c := range map[string]struct {
		change func(*desired.Storage)
		wrong  string
	}{
		"a bucket":              {func(*desired.Storage) {}, ""},
		"another address":       {func(s *desired.Storage) { s.Endpoint = "https://else.test" }, "must not be sent"},
		"no credential":         {func(s *desired.Storage) { s.CredentialsRef = "credential:none" }, "credential:none"},
		"half a credential":     {func(s *desired.Storage) { s.CredentialsRef = "credential:half" }, "ACCESSKEY:SECRETKEY"},
		"no bucket":             {func(s *desired.Storage) { s.Bucket = "" }, "storage.bucket"},
		"no endpoint":           {func(s *desired.Storage) { s.Endpoint = "" }, "storage.endpoint"},
		"another protocol":      {func(s *desired.Storage) { s.Endpoint = "ftp://s3.test" }, "storage.endpoint"},
		"an unknown encryption": {func(s *desired.Storage) { s.SSE = "rot13" }, "storage.sse"},
		"a folder": {func(s *desired.Storage) {
			*s = desired.Storage{Driver: "files", Path: filepath.Join(t.TempDir(), "objects")}
		}, ""},
		"no storage section":      {func(s *desired.Storage) { *s = desired.Storage{} }, ""},
		"a file and not a folder": {func(s *desired.Storage) { *s = desired.Storage{Driver: "files", Path: file} }, "storage.path"},
	} {
		storage := bucket
		c.change(&storage)
		store, err := Open(t.Context(), Config{Storage: storage, Dir: filepath.Join(t.TempDir(), "default"), Credentials: all})
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) || err == nil && store == nil {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "AKIA") {
			t.Errorf("%s: the error has the credential", name)
		}
	}
}

// The test finds a missing right, and leaves nothing.
func TestTheStoreIsTested(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t, false)
	storage := desired.Storage{Driver: "s3", Endpoint: server.URL.String(), Region: server.Region, Bucket: server.Bucket, Prefix: "gpuaas", PathStyle: true, SSE: "none", Checksums: true, CredentialsRef: "credential:objects"}
	c := Config{Storage: storage, Credentials: secretreftest.Credentials(t, server.URL.String(), map[string]string{"objects": server.Access + ":" + server.Secret})}
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := Test(t.Context(), s); err != nil {
		t.Errorf("a bucket: %v", err)
	}
	empty(t, s)
	c.Storage.Bucket = "missing"
	if s, err = Open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := Test(t.Context(), s); err == nil || !strings.Contains(err.Error(), "NoSuchBucket") {
		t.Errorf("no bucket: %v", err)
	}

	folder, err := files.Open(t.TempDir(), clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Test(t.Context(), folder); err != nil {
		t.Errorf("a folder: %v", err)
	}
	for _, method := range []string{"put", "get", "other bytes", "delete", "delete nothing", "list", "begin", "part", "parts", "abort"} {
		err := Test(t.Context(), broken{folder, method})
		if err == nil {
			t.Errorf("%s: no error", method)
		}
	}
}

func empty(t *testing.T, s blob.Store) {
	t.Helper()
	for info, err := range s.List(t.Context(), uuid.Nil) {
		t.Errorf("an object remains: %+v, %v", info, err)
	}
	for u, err := range s.Uploads(t.Context(), time.Now().Add(time.Hour)) {
		t.Errorf("an upload remains: %+v, %v", u, err)
	}
}

var errDenied = errors.New("denied")

// broken denies one method.
type broken struct {
	blob.Store

	method string
}

func (b broken) denies(method string) error {
	if b.method == method {
		return errDenied
	}
	return nil
}

func (b broken) Put(ctx context.Context, id uuid.UUID, r io.Reader, size int64) (int64, error) {
	if err := b.denies("put"); err != nil {
		return 0, err
	}
	return b.Store.Put(ctx, id, r, size)
}

func (b broken) Get(ctx context.Context, id uuid.UUID, offset, length int64) (io.ReadCloser, error) {
	if b.method == "other bytes" {
		return io.NopCloser(strings.NewReader("else")), nil
	}
	if err := b.denies("get"); err != nil {
		return nil, err
	}
	return b.Store.Get(ctx, id, offset, length)
}

func (b broken) Delete(ctx context.Context, id uuid.UUID) error {
	if b.method == "delete nothing" {
		return nil
	}
	return errors.Join(b.denies("delete"), b.Store.Delete(ctx, id))
}

func (b broken) List(ctx context.Context, after uuid.UUID) iter.Seq2[blob.Info, error] {
	if b.method != "list" {
		return b.Store.List(ctx, after)
	}
	return func(yield func(blob.Info, error) bool) { yield(blob.Info{}, errDenied) }
}

func (b broken) Begin(ctx context.Context, id uuid.UUID) (blob.Upload, error) {
	u, err := b.Store.Begin(ctx, id)
	return u, errors.Join(err, b.denies("begin"))
}

func (b broken) PutPart(ctx context.Context, u blob.Upload, number int, r io.Reader, size int64) (blob.Part, error) {
	p, err := b.Store.PutPart(ctx, u, number, r, size)
	return p, errors.Join(err, b.denies("part"))
}

func (b broken) Parts(ctx context.Context, u blob.Upload) ([]blob.Part, error) {
	p, err := b.Store.Parts(ctx, u)
	return p, errors.Join(err, b.denies("parts"))
}

func (b broken) Abort(ctx context.Context, u blob.Upload) error {
	return errors.Join(b.Store.Abort(ctx, u), b.denies("abort"))
}

// flaky fails until it is repaired.
type flaky struct {
	blob.Store

	repaired atomic.Bool
}

func (f *flaky) Put(ctx context.Context, id uuid.UUID, r io.Reader, size int64) (int64, error) {
	if !f.repaired.Load() {
		return 0, errDenied
	}
	return f.Store.Put(ctx, id, r, size)
}

// A change is logged once, and health reports the last test.
func TestMonitor(t *testing.T) {
	t.Parallel()
	folder, err := files.Open(t.TempDir(), clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := &flaky{Store: folder}
	m := &Monitor{Store: s, Log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 3 {
		if next := m.test(t.Context()); next != retryEvery || !strings.Contains(m.Failure(), "write: denied") {
			t.Errorf("next after %s, failure %q", next, m.Failure())
		}
	}
	s.repaired.Store(true)
	for range 2 {
		if next := m.test(t.Context()); next != testEvery || m.Failure() != "" {
			t.Errorf("next after %s, failure %q", next, m.Failure())
		}
	}
	if got := strings.Count(log.String(), "\n"); got != 2 || !strings.Contains(log.String(), "works again") {
		t.Errorf("%d lines: %s", got, log.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.Run(ctx) // ends
	if m.Failure() != "" {
		t.Errorf("the end of the server is a failure: %s", m.Failure())
	}
}
