package s3_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/s3"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
	"github.com/gpuaas/gpuaas/product/storage/blob/files"
)

const (
	region = "test-1"
	bucket = "default" // the project of the seed
)

// fixture is an endpoint on the real services, two tenants, and keys of them.
type fixture struct {
	*identitytest.Tenancy

	t        *testing.T
	endpoint *s3.Server
	keys     *accesskey.Service
	storage  *storage.Service
	url      *url.URL
	wait     atomic.Int64 // what the rate limits return
	unknown  atomic.Int64 // what the limit of addresses returns besides
	owner    accesskey.Key
	quota    atomic.Int64
}

func (f *fixture) ChargeStorage(identity.Caller) time.Duration { return time.Duration(f.wait.Load()) }

func (f *fixture) ChargeAnonymous(*http.Request) time.Duration {
	return time.Duration(f.wait.Load() + f.unknown.Load())
}

func setup(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Tenancy: identitytest.NewTenancy(t), t: t}
	f.quota.Store(1 << 30)
	store, err := files.Open(t.TempDir(), clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	limits := func(ids.Tenant, ids.Project) storage.Limits {
		return storage.Limits{ProjectBytes: f.quota.Load(), TenantBytes: 1 << 40, ProjectObjects: 100_000, TenantObjects: 100_000, ObjectBytes: 1 << 30, Trash: time.Hour, UploadLife: time.Hour}
	}
	f.storage = &storage.Service{DB: f.DB, Identity: f.Service, Blobs: store, Naming: ids.DefaultNaming, Limits: limits}
	f.keys = &accesskey.Service{DB: f.DB, Identity: f.Service, Seal: identitytest.Seal(t)}
	may := func(operation string, c identity.Caller) bool {
		return request.RightTo(operation, func() policies.RoleTable { return policies.RoleTable{} })(c)
	}
	f.endpoint = &s3.Server{Config: s3.Config{
		Storage: f.storage, Keys: f.keys, May: may, Limits: f, Region: region, Domain: "s3.example", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
	server := httptest.NewServer(f.endpoint)
	t.Cleanup(server.Close)
	if f.url, err = url.Parse(server.URL); err != nil {
		t.Fatal(err)
	}
	f.owner = f.key(f.in(f.Owner), accesskey.NewKey{Name: "owner"})
	return f
}

// in returns a caller in the project of the seed.
func (f *fixture) in(c identity.Caller) identity.Caller {
	f.t.Helper()
	in, err := f.InProject(identitytest.In(f.t.Context(), c), c, f.Seed.Project.String())
	if err != nil {
		f.t.Fatal(err)
	}
	return in
}

func (f *fixture) key(c identity.Caller, n accesskey.NewKey) accesskey.Key {
	f.t.Helper()
	k, err := f.keys.Create(identitytest.In(f.t.Context(), c), identitytest.Change[accesskey.Key](c), n)
	if err != nil {
		f.t.Fatal(err)
	}
	return k
}

// client returns a client of minio-go.
func (f *fixture) client(k accesskey.Key) *minio.Client {
	f.t.Helper()
	c, err := minio.New(f.url.Host, &minio.Options{Creds: credentials.NewStaticV4(k.AccessKeyID, k.Secret, ""), Region: region, BucketLookup: minio.BucketLookupPath, TrailingHeaders: true, MaxRetries: 1})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *fixture) put(c *minio.Client, key, text string) {
	f.t.Helper()
	if _, err := c.PutObject(f.t.Context(), bucket, key, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{}); err != nil {
		f.t.Fatalf("%s: %v", key, err)
	}
}

// got is a response.
type got struct {
	status int
	header http.Header
	body   string
}

func (g got) code() string {
	_, rest, _ := strings.Cut(g.body, "<Code>")
	code, _, _ := strings.Cut(rest, "</Code>")
	return code
}

// send signs a request with a key, after change has changed it, and sends it. A nil change after the signature is possible too.
func (f *fixture) send(k accesskey.Key, method, path, body string, change func(*http.Request)) got {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.url.String()+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	if change != nil {
		change(r)
	}
	return f.do(signer.SignV4(*r, k.AccessKeyID, k.Secret, "", region))
}

func (f *fixture) do(r *http.Request) got {
	f.t.Helper()
	client := &http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w, err := client.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer w.Body.Close()
	text, _ := io.ReadAll(w.Body)
	return got{w.StatusCode, w.Header, string(text)}
}

func (f *fixture) want(what string, g got, status int, code string) {
	f.t.Helper()
	if g.status != status || g.code() != code {
		f.t.Errorf("%s: %d %s, want %d %s: %s", what, g.status, g.code(), status, code, g.body)
	}
}

func wantError(t *testing.T, what string, err error, code string) {
	t.Helper()
	if minio.ToErrorResponse(err).Code != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func readAll(ctx context.Context, c *minio.Client, key string, o minio.GetObjectOptions) (string, error) {
	from, err := c.GetObject(ctx, bucket, key, o)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	_, err = text.ReadFrom(from)
	return text.String(), err
}
