package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/blob/blobtest"
	"github.com/gpuaas/gpuaas/product/storage/blob/s3/s3test"
)

func configOf(server *s3test.Server) Config {
	return Config{
		Endpoint: server.URL, Region: server.Region, Bucket: server.Bucket, Prefix: "test/" + uuid.NewString(), PathStyle: true, Roots: server.Roots,
		Credentials: func(context.Context) (string, string, error) { return server.Access, server.Secret, nil },
	}
}

func open(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A request over TLS has no signature of its body, and checksums are sent in another form.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tls    bool
		change func(*Config)
	}{
		"http":              {false, func(*Config) {}},
		"without checksums": {false, func(c *Config) { c.Unchecked = true }},
		"https":             {true, func(*Config) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := s3test.Start(t, c.tls)
			blobtest.Contract(t, server.Client(), func(t *testing.T) blob.Store {
				t.Helper()
				config := configOf(server)
				c.change(&config)
				s := open(t, config)
				s.pageSize, s.visible = 7, 300*time.Millisecond // lists have several pages
				return s
			})
		})
	}
}

// An object that is too large for one request, or has no announced size, becomes parts; what fails leaves none.
func TestLargeObjects(t *testing.T) {
	t.Parallel()
	s := open(t, configOf(s3test.Start(t, false)))
	s.single, s.partOfSingle = 11<<20, blob.MinPart
	content := blobtest.Bytes(unknownPart + 1<<20)
	for name, size := range map[string]int64{"announced": int64(len(content)), "not announced": -1} {
		id := blobtest.NewID(t)
		if n, err := s.Put(t.Context(), id, bytes.NewReader(content), size); err != nil || n != int64(len(content)) {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
		r, err := s.Get(t.Context(), id, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	failure := errors.New("disconnected")
	for name, c := range map[string]struct {
		r    io.Reader
		size int64
		err  error
	}{
		"short":                   {bytes.NewReader(content), int64(len(content)) + 1, blob.ErrSize},
		"long":                    {bytes.NewReader(content), int64(len(content)) - 1, blob.ErrSize},
		"a failure":               {io.MultiReader(bytes.NewReader(content), failing{failure}), int64(len(content)) + 1, failure},
		"a failure, unknown size": {io.MultiReader(bytes.NewReader(content), failing{failure}), -1, failure},
	} {
		id := blobtest.NewID(t)
		if _, err := s.Put(t.Context(), id, c.r, c.size); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Stat(t.Context(), id); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s: stat: %v", name, err)
		}
	}
	for u, err := range s.Uploads(t.Context(), time.Now().Add(time.Hour)) {
		t.Errorf("an upload remains: %v, %v", u, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// zeros ends after some bytes and needs no memory.
type zeros struct{ rest int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.rest == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.rest)
	clear(p[:n])
	z.rest -= n
	return int(n), nil
}

// Memory does not grow with the object.
//
//nolint:paralleltest // it measures what the whole process allocates
func TestConstantMemory(t *testing.T) {
	s := open(t, configOf(s3test.Start(t, false)))
	const size = 256 << 20
	id := blobtest.NewID(t)
	u, err := s.Begin(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	allocated(t, "put", func() error { _, err := s.Put(t.Context(), id, &zeros{size}, size); return err })
	allocated(t, "part", func() error { _, err := s.PutPart(t.Context(), u, 1, &zeros{size}, size); return err })
	allocated(t, "get", func() error {
		r, err := s.Get(t.Context(), id, 0, -1)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r)
		return errors.Join(err, r.Close())
	})
}

func allocated(t *testing.T, name string, do func() error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := do(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("%s allocates %d MiB", name, n>>20)
	}
}

// Other programs may use the bucket, and keys next to the prefix.
func TestOnlyThePrefixIsListed(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t, false)
	config := configOf(server)
	s := open(t, config)
	id := blobtest.NewID(t)
	if _, err := s.Put(t.Context(), id, strings.NewReader("a"), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(server.Dir, server.Bucket, config.Prefix, id.String())); err != nil {
		t.Errorf("the key is not the prefix and the id: %v", err)
	}
	for _, prefix := range []string{config.Prefix + "-other", config.Prefix + "/below", "another"} {
		config := config
		config.Prefix = prefix
		other := open(t, config)
		if _, err := other.Put(t.Context(), blobtest.NewID(t), strings.NewReader("b"), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Begin(t.Context(), blobtest.NewID(t)); err != nil {
			t.Fatal(err)
		}
	}
	foreign := filepath.Join(server.Dir, server.Bucket, config.Prefix, "README")
	if err := os.WriteFile(foreign, []byte("not an object"), 0o600); err != nil {
		t.Fatal(err)
	}
	found := 0
	for info, err := range s.List(t.Context(), uuid.Nil) {
		if found++; err != nil || info.ID != id {
			t.Errorf("listed: %+v, %v", info, err)
		}
	}
	for u, err := range s.Uploads(t.Context(), time.Now().Add(time.Hour)) {
		t.Errorf("an upload of another prefix: %+v, %v", u, err)
	}
	if found != 1 {
		t.Errorf("%d objects", found)
	}
}

// The cleanup job must not conclude from a missing bucket, wrong credentials or a server that is away that objects are lost.
func TestAnUnavailableStoreIsNotAMissingObject(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t, false)
	for name, change := range map[string]func(*Config){
		"no such bucket": func(c *Config) { c.Bucket = "missing" },
		"wrong secret": func(c *Config) {
			c.Credentials = func(context.Context) (string, string, error) { return server.Access, "wrong", nil }
		},
		"no credentials": func(c *Config) {
			c.Credentials = func(context.Context) (string, string, error) { return "", "", errors.New("no file") }
		},
		"another region":     func(c *Config) { c.Region = "test-2" },
		"nothing at address": func(c *Config) { c.Endpoint = &url.URL{Scheme: "http", Host: "127.0.0.1:1"} },
		"another protocol":   func(c *Config) { c.Endpoint = &url.URL{Scheme: "https", Host: server.URL.Host} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := configOf(server)
			change(&config)
			s := open(t, config)
			id := blobtest.NewID(t)
			_, put := s.Put(t.Context(), id, strings.NewReader("a"), 1)
			_, get := s.Get(t.Context(), id, 0, -1)
			_, stat := s.Stat(t.Context(), id)
			_, begin := s.Begin(t.Context(), id)
			_, parts := s.Parts(t.Context(), blob.Upload{ID: id, Handle: uuid.NewString()})
			var list error
			for _, err := range s.List(t.Context(), uuid.Nil) {
				list = err
			}
			for method, err := range map[string]error{"put": put, "get": get, "stat": stat, "delete": s.Delete(t.Context(), id), "begin": begin, "parts": parts, "list": list} {
				if err == nil || errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrFull) {
					t.Errorf("%s: %v", method, err)
				}
			}
		})
	}
}

// Rotated credentials are in use without a restart.
func TestRotatedCredentials(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t, false)
	config := configOf(server)
	var now atomic.Int64
	now.Store(time.Now().Unix())
	var secret atomic.Value
	secret.Store("old")
	config.Clock = clock.At(func() time.Time { return time.Unix(now.Load(), 0) })
	config.Credentials = func(context.Context) (string, string, error) { return server.Access, secret.Load().(string), nil }
	s := open(t, config)
	put := func() error {
		_, err := s.Put(t.Context(), blobtest.NewID(t), strings.NewReader("a"), 1)
		return err
	}
	if put() == nil {
		t.Fatal("a wrong secret is accepted")
	}
	secret.Store(server.Secret)
	now.Add(int64(credentialLife/time.Second) + 1)
	if err := put(); err != nil {
		t.Error(err)
	}
}

// double answers requests that no real server answers on request.
func double(t *testing.T, handler http.HandlerFunc) *Store {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, Config{
		Endpoint: at, Region: "test-1", Bucket: "objects", PathStyle: true, SSE: SSEKMS, KMSKey: "key-1",
		Credentials: func(context.Context) (string, string, error) { return "a", "b", nil },
	})
}

// The provider filters, because the credential may have no right to the rest of the bucket.
func TestTheProviderFiltersByPrefix(t *testing.T) {
	t.Parallel()
	var requests, filtered atomic.Int64
	s := double(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Query().Get("prefix") == "p/" {
			filtered.Add(1)
		}
		_, _ = io.WriteString(w, "<Result></Result>")
	})
	s.prefix = "p/"
	for info, err := range s.List(t.Context(), uuid.Nil) {
		t.Errorf("an object of an empty response: %+v, %v", info, err)
	}
	for u, err := range s.Uploads(t.Context(), time.Now()) {
		t.Errorf("an upload of an empty response: %+v, %v", u, err)
	}
	if requests.Load() != 2 || filtered.Load() != 2 {
		t.Errorf("%d of %d requests name the prefix", filtered.Load(), requests.Load())
	}
}

func TestErrorsOfProviders(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		status int
		err    error
	}{
		"QuotaExceeded": {http.StatusForbidden, blob.ErrFull}, "XMinioStorageFull": {http.StatusInsufficientStorage, blob.ErrFull}, "Other": {http.StatusInsufficientStorage, blob.ErrFull},
		"NoSuchUpload": {http.StatusNotFound, blob.ErrNotFound}, "EntityTooLarge": {http.StatusBadRequest, blob.ErrPart}, "AccessDenied": {http.StatusForbidden, nil}, "NoSuchBucket": {http.StatusNotFound, nil},
	} {
		s := double(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>a message</Message></Error>")
		})
		_, err := s.PutPart(t.Context(), blob.Upload{ID: uuid.New(), Handle: "u"}, 1, strings.NewReader("a"), 1)
		for _, known := range []error{blob.ErrFull, blob.ErrNotFound, blob.ErrPart, blob.ErrSize} {
			if errors.Is(err, known) != errors.Is(c.err, known) || err == nil {
				t.Errorf("%s: %v, want %v", code, err, c.err)
			}
		}
	}
}

// A provider under load answers 503. What can be sent again is, a few times.
func TestBoundedRetries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		put   func(*Store) error
		tries int64
	}{
		"a small object": {func(s *Store) error { _, err := s.Put(t.Context(), uuid.New(), strings.NewReader("a"), 1); return err }, retries},
		"a stream":       {func(s *Store) error { _, err := s.Put(t.Context(), uuid.New(), &zeros{small + 1}, small+1); return err }, 1},
	} {
		var tries atomic.Int64
		s := double(t, func(w http.ResponseWriter, r *http.Request) {
			tries.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "<Error><Code>SlowDown</Code></Error>")
		})
		if err := c.put(s); err == nil || tries.Load() != c.tries {
			t.Errorf("%s: %d requests, %v", name, tries.Load(), err)
		}
	}
}

// The key of the encryption is in each request that makes an object, and in the signature of one.
func TestServerSideEncryption(t *testing.T) {
	t.Parallel()
	var seen atomic.Value
	s := double(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen.Store(r.Header.Get("X-Amz-Server-Side-Encryption") + " " + r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"))
		_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
	})
	_, put := s.Put(t.Context(), uuid.New(), strings.NewReader("a"), 1)
	first := seen.Swap("")
	_, begin := s.Begin(t.Context(), uuid.New())
	if err := errors.Join(put, begin); err != nil || first != "aws:kms key-1" || seen.Load() != "aws:kms key-1" {
		t.Errorf("put %q, begin %q, %v", first, seen.Load(), err)
	}
	signed, err := s.Sign(t.Context(), blob.Request{Method: http.MethodPut, ID: uuid.New(), Size: 1, Life: time.Minute})
	if err != nil || signed.Headers.Get("X-Amz-Server-Side-Encryption") != "aws:kms" || !strings.Contains(signed.URL, "x-amz-server-side-encryption") {
		t.Errorf("%+v, %v", signed, err)
	}
}

// A connection without progress fails; one whose reader is slow to use what it has received does not.
func TestStalledConnections(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer b.Close()
	recorder := &deadlines{Conn: a}
	c := stallConn{recorder}
	go func() { _, _ = b.Write([]byte("x")) }()
	if _, err := c.Read(make([]byte, 1)); err != nil || recorder.read.Load() != 1 || recorder.both.Load() != 0 {
		t.Errorf("read: %d, %d, %v", recorder.read.Load(), recorder.both.Load(), err)
	}
	go func() { _, _ = io.ReadFull(b, make([]byte, 1)) }()
	if _, err := c.Write([]byte("x")); err != nil || recorder.both.Load() != 1 {
		t.Errorf("write: %d, %v", recorder.both.Load(), err)
	}
}

type deadlines struct {
	net.Conn

	read, both atomic.Int64
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read.Add(1)
	return d.Conn.SetReadDeadline(at)
}

func (d *deadlines) SetDeadline(at time.Time) error {
	d.both.Add(1)
	return d.Conn.SetDeadline(at)
}
