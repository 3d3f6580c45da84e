package s3_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/gpuaas/gpuaas/api/s3"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
)

func shifted(by time.Duration) clock.Clock {
	return clock.At(func() time.Time { return time.Now().Add(by) })
}

func scoped(f *fixture) context.Context { return identitytest.In(f.t.Context(), f.Owner) }

func (f *fixture) listed(c *minio.Client, o minio.ListObjectsOptions) string {
	f.t.Helper()
	var keys []string
	for info := range c.ListObjects(f.t.Context(), bucket, o) {
		if info.Err != nil {
			f.t.Fatal(info.Err)
		}
		keys = append(keys, info.Key)
	}
	return strings.Join(keys, " ")
}

// A bucket of another tenant has the response of one that does not exist, for every method.
func TestOtherTenantsAreNotVisible(t *testing.T) {
	t.Parallel()
	f := setup(t)
	foreign := f.Foreign.Owner
	foreign.Project, foreign.ProjectRole = f.Foreign.Project, "admin"
	key := f.key(foreign, accesskey.NewKey{Name: "foreign"})
	f.Exec(t, `UPDATE projects SET name = 'secret-project' WHERE id = $1`, f.Foreign.Project)
	theirs := f.client(key)
	if _, err := theirs.PutObject(t.Context(), "secret-project", "a", strings.NewReader("1"), 1, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"secret-project", f.Foreign.Project.String()} {
		for _, c := range []struct{ method, path string }{
			{"GET", ""},
			{"GET", "?list-type=2"},
			{"GET", "?location"},
			{"GET", "?uploads"},
			{"GET", "/a"},
			{"PUT", "/a"},
			{"PUT", "/b"},
			{"PUT", ""},
			{"DELETE", "/a"},
			{"DELETE", ""},
			{"POST", "?delete"},
			{"POST", "/a?uploads"},
			{"GET", "/missing"},
		} {
			exists := f.send(f.owner, c.method, "/"+name+c.path, "", nil)
			missing := f.send(f.owner, c.method, "/no-project"+c.path, "", nil)
			if exists.status != 404 || exists.code() != "NoSuchBucket" || missing.status != exists.status || missing.code() != exists.code() {
				t.Errorf("%s %s: %d %s, and %d %s", c.method, c.path, exists.status, exists.code(), missing.status, missing.code())
			}
		}
		if g := f.send(f.owner, "HEAD", "/"+name+"/a", "", nil); g.status != 404 {
			t.Errorf("HEAD: %d", g.status)
		}
		copied := f.send(f.owner, "PUT", "/default/x", "", func(r *http.Request) { r.Header.Set("X-Amz-Copy-Source", name+"/a") })
		f.want("a copy", copied, 404, "NoSuchBucket")
	}
	buckets, err := f.client(f.owner).ListBuckets(t.Context())
	if err != nil || len(buckets) != 1 || buckets[0].Name != bucket {
		t.Errorf("%v, %v", buckets, err)
	}
}

func TestLimitedKeys(t *testing.T) {
	t.Parallel()
	f := setup(t)
	owner := f.client(f.owner)
	for _, key := range []string{"data/a", "data/sub/b", "database", "other/c"} {
		f.put(owner, key, "1")
	}
	reader := f.key(f.in(f.Owner), accesskey.NewKey{Name: "reader", ReadOnly: true})
	limited := f.key(f.in(f.Owner), accesskey.NewKey{Name: "limited", Prefix: "data"})
	for _, c := range []struct {
		key          accesskey.Key
		method, path string
		status       int
		code         string
	}{
		{reader, "GET", "/default/data/a", 200, ""},
		{reader, "GET", "/default", 200, ""},
		{reader, "PUT", "/default/x", 403, "AccessDenied"},
		{reader, "PUT", "/default/x/", 403, "AccessDenied"},
		{reader, "DELETE", "/default/data/a", 403, "AccessDenied"},
		{reader, "POST", "/default?delete", 403, "AccessDenied"},
		{limited, "GET", "/default/data/a", 200, ""},
		{limited, "PUT", "/default/data/x", 200, ""},
		{limited, "GET", "/default/database", 403, "AccessDenied"},
		{limited, "GET", "/default/missing", 403, "AccessDenied"},
		{limited, "GET", "/default/other/c", 403, "AccessDenied"},
		{limited, "PUT", "/default/other/c", 403, "AccessDenied"},
		{limited, "DELETE", "/default/other/c", 403, "AccessDenied"},
		{limited, "DELETE", "/default/data/", 403, "AccessDenied"},
		{limited, "GET", "/default?prefix=other/", 403, "AccessDenied"},
		{limited, "GET", "/default?prefix=data/", 200, ""},
	} {
		f.want(c.method+" "+c.path, f.send(c.key, c.method, c.path, "", nil), c.status, c.code)
	}
	stolen := f.send(limited, "PUT", "/default/data/stolen", "", func(r *http.Request) { r.Header.Set("X-Amz-Copy-Source", "/default/other/c") })
	f.want("a copy from elsewhere", stolen, 403, "AccessDenied")
	for o, want := range map[string]string{"": "data/", "da": "data/", "data/": "data/a data/x data/sub/"} {
		if got := f.listed(f.client(limited), minio.ListObjectsOptions{Prefix: o}); got != want {
			t.Errorf("%q: listed %q, want %q", o, got, want)
		}
	}
	if got := f.listed(f.client(limited), minio.ListObjectsOptions{Recursive: true}); got != "data/a data/sub/b data/x" {
		t.Errorf("listed %q", got)
	}
	wantObjects := f.send(limited, "POST", "/default?delete", "<Delete><Object><Key>other/c</Key></Object></Delete>", nil)
	if wantObjects.status != 200 || !strings.Contains(wantObjects.body, "<Error><Key>other/c</Key><Code>AccessDenied</Code>") {
		t.Errorf("%+v", wantObjects)
	}
}

// A key has the present rights of its creator, and ends with them.
func TestKeysEnd(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.put(f.client(f.owner), "a", "1")
	get := func(k accesskey.Key) got { return f.send(k, "GET", "/default/a", "", nil) }
	f.Exec(t, `INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, 'member') ON CONFLICT DO NOTHING`, f.Seed.Project, f.Member.User)
	member := f.in(f.Member)
	k := f.key(member, accesskey.NewKey{Name: "member", TTL: time.Hour})
	f.want("a member", get(k), 200, "")
	if used, err := f.keys.Key(identitytest.In(t.Context(), member), member, k.ID); err != nil || used.LastUsedAt == nil || used.Secret != "" {
		t.Errorf("%+v, %v", used, err)
	}
	set := func(sql string, args ...any) {
		f.Exec(t, sql, args...)
		f.RightsChanged()
	}
	set(`UPDATE project_memberships SET role = 'viewer' WHERE user_id = $1`, member.User)
	f.want("a viewer reads", get(k), 200, "")
	f.want("a viewer writes", f.send(k, "PUT", "/default/b", "1", nil), 403, "AccessDenied")
	set(`UPDATE users SET disabled_at = now() WHERE id = $1`, member.User)
	f.want("a disabled user", get(k), 403, "AccessDenied")
	set(`UPDATE users SET disabled_at = NULL WHERE id = $1`, member.User)
	set(`DELETE FROM project_memberships WHERE user_id = $1`, member.User)
	f.want("without a role", get(k), 403, "AccessDenied")
	set(`UPDATE storage_access_keys SET expires_at = now() WHERE id = $1`, f.owner.ID)
	f.want("expired", get(f.owner), 403, "InvalidAccessKeyId")

	next := f.key(f.in(f.Owner), accesskey.NewKey{Name: "next"})
	f.want("the next key", get(next), 200, "")
	owner := f.in(f.Owner)
	if err := f.keys.Revoke(scoped(f), identity.Change[struct{}]{Caller: owner}, next.ID); err != nil {
		t.Fatal(err)
	}
	f.want("revoked", get(next), 403, "InvalidAccessKeyId")
	identitytest.WantCode(t, "revoked again", f.keys.Revoke(scoped(f), identity.Change[struct{}]{Caller: owner}, next.ID), errs.NotFound)
	if n := f.Count(t, `SELECT count(*) FROM audit_logs WHERE action IN ('storage_key.create', 'storage_key.revoke') AND target_urn LIKE '%storage-key:' || $1`, next.ID.String()); n != 2 {
		t.Errorf("%d audit rows", n)
	}
	stale := owner
	stale.SignIn = identity.SignIn{At: time.Now().Add(-24 * time.Hour)}
	_, err := f.keys.Create(scoped(f), identitytest.Change[accesskey.Key](stale), accesskey.NewKey{Name: "stale"})
	identitytest.WantCode(t, "an old sign-in", err, errs.StepUpRequired)
}

// A secret lies nowhere in clear.
func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if n := f.Count(t, `SELECT count(*) FROM storage_access_keys WHERE position($1::bytea IN secret_enc) > 0 OR storage_access_keys::text LIKE '%' || $2 || '%'`, []byte(f.owner.Secret), f.owner.Secret); n != 0 {
		t.Error("the row contains the secret")
	}
	if len(f.owner.AccessKeyID) != 20 || strings.ToUpper(f.owner.AccessKeyID) != f.owner.AccessKeyID || !strings.HasPrefix(f.owner.Secret, accesskey.SecretPrefix) {
		t.Errorf("%s, %s", f.owner.AccessKeyID, f.owner.Secret)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	f := setup(t)
	wrong := f.owner
	wrong.Secret += "x"
	unknown := f.owner
	unknown.AccessKeyID = "GPUAAAAAAAAAAAAAAAAA"
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for what, c := range map[string]struct {
		key                accesskey.Key
		method, path, body string
		change             func(*http.Request)
		status             int
		code               string
	}{
		"another secret":         {wrong, "GET", "/default", "", nil, 403, "SignatureDoesNotMatch"},
		"an unknown key":         {unknown, "GET", "/default", "", nil, 403, "InvalidAccessKeyId"},
		"a path upwards":         {f.owner, "PUT", "/default/a/%2e%2e/b", "1", nil, 400, "InvalidArgument"},
		"two slashes":            {f.owner, "PUT", "/default/a//b", "1", nil, 400, "InvalidArgument"},
		"a control character":    {f.owner, "PUT", "/default/a%01b", "1", nil, 400, "InvalidArgument"},
		"a device name":          {f.owner, "PUT", "/default/CON", "1", nil, 400, "InvalidArgument"},
		"a long key":             {f.owner, "PUT", "/default/" + strings.Repeat("a/", 600), "", nil, 400, "KeyTooLongError"},
		"another spelling":       {f.owner, "PUT", "/default/Folder", "1", nil, 400, "InvalidRequest"},
		"ACL":                    {f.owner, "GET", "/default/a?acl", "", nil, 501, "NotImplemented"},
		"a policy":               {f.owner, "PUT", "/default?policy", "{}", nil, 501, "NotImplemented"},
		"a version":              {f.owner, "GET", "/default/a?versionId=3", "", nil, 501, "NotImplemented"},
		"another delimiter":      {f.owner, "GET", "/default?delimiter=-", "", nil, 501, "NotImplemented"},
		"another encoding":       {f.owner, "GET", "/default?encoding-type=x", "", nil, 400, "InvalidArgument"},
		"negative max-keys":      {f.owner, "GET", "/default?max-keys=-1", "", nil, 400, "InvalidArgument"},
		"a malformed token":      {f.owner, "GET", "/default?list-type=2&continuation-token=%21", "", nil, 400, "InvalidArgument"},
		"a prefix with a zero":   {f.owner, "GET", "/default?prefix=%00", "", nil, 400, "InvalidArgument"},
		"a prefix not UTF-8":     {f.owner, "GET", "/default?prefix=%ff", "", nil, 400, "InvalidArgument"},
		"a method":               {f.owner, "PATCH", "/default/a", "", nil, 405, "MethodNotAllowed"},
		"a bucket that exists":   {f.owner, "PUT", "/default", "", nil, 409, "BucketAlreadyOwnedByYou"},
		"deleting a bucket":      {f.owner, "DELETE", "/default", "", nil, 501, "NotImplemented"},
		"POST with a policy":     {f.owner, "POST", "/default", "", header("Content-Type", "multipart/form-data; boundary=x"), 501, "NotImplemented"},
		"no length":              {f.owner, "PUT", "/default/a", "1", func(r *http.Request) { r.ContentLength, r.Body = -1, io.NopCloser(strings.NewReader("1")) }, 411, "MissingContentLength"},
		"another hash":           {f.owner, "PUT", "/default/a", "1", header("X-Amz-Content-Sha256", strings.Repeat("0", 64)), 400, "XAmzContentSHA256Mismatch"},
		"another hash of none":   {f.owner, "PUT", "/default/a", "", header("X-Amz-Content-Sha256", strings.Repeat("0", 64)), 400, "XAmzContentSHA256Mismatch"},
		"another checksum":       {f.owner, "PUT", "/default/a", "1", header("X-Amz-Checksum-Crc32", "AAAAAA=="), 400, "BadDigest"},
		"another MD5 of nothing": {f.owner, "PUT", "/default/a", "", header("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="), 400, "BadDigest"},
		"too few chunks": {f.owner, "PUT", "/default/a", "1\r\na\r\n0\r\n\r\n", func(r *http.Request) {
			r.Header.Set("X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
			r.Header.Set("X-Amz-Decoded-Content-Length", "2")
		}, 400, "IncompleteBody"},
		"too large": {f.owner, "PUT", "/default/a", "1\r\na\r\n0\r\n\r\n", func(r *http.Request) {
			r.Header.Set("X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
			r.Header.Set("X-Amz-Decoded-Content-Length", "5497558138880")
		}, 400, "EntityTooLarge"},
	} {
		f.put(f.client(f.owner), "folder/x", "1")
		f.want(what, f.send(c.key, c.method, c.path, c.body, c.change), c.status, c.code)
	}
	if got := f.listed(f.client(f.owner), minio.ListObjectsOptions{Recursive: true}); got != "folder/x" {
		t.Errorf("a bad request has stored %q", got)
	}
	f.want("no signature", f.do(plain(f)), 403, "AccessDenied")
	f.want("version 2", f.do(func() *http.Request {
		r := plain(f)
		r.Header.Set("Authorization", "AWS "+f.owner.AccessKeyID+":xxxx")
		return r
	}()), 400, "InvalidRequest")
	if g := f.do(signer.SignV4(*unsigned(f), f.owner.AccessKeyID, f.owner.Secret, "", "eu-west-9")); g.code() != "AuthorizationHeaderMalformed" || !strings.Contains(g.body, "<Region>"+region+"</Region>") {
		t.Errorf("another region: %+v", g)
	}
	if g := f.do(signer.SignV4(*unsigned(f), f.owner.AccessKeyID, f.owner.Secret, "", s3.AnyRegion)); g.status != 200 {
		t.Errorf("the region of clients without one: %+v", g)
	}
	f.wait.Store(int64(time.Second))
	f.want("too many", f.send(f.owner, "GET", "/default", "", nil), 503, "SlowDown")
	f.want("too many guesses", f.do(plain(f)), 503, "SlowDown")
	f.wait.Store(0)
	f.endpoint.Clock = shifted(16 * time.Minute)
	f.want("another clock", f.send(f.owner, "GET", "/default", "", nil), 403, "RequestTimeTooSkewed")
}

func plain(f *fixture) *http.Request {
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, f.url.String()+"/default", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func unsigned(f *fixture) *http.Request {
	r := plain(f)
	r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	return r
}

func TestHostStyle(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.put(f.client(f.owner), "a/b", "hello")
	at := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	if g := f.send(f.owner, "GET", "/a/b", "", at("default.S3.example:8480")); g.body != "hello" {
		t.Errorf("%+v", g)
	}
	f.want("another bucket", f.send(f.owner, "GET", "/a/b", "", at("other.s3.example")), 404, "NoSuchBucket")
	f.want("the name of the endpoint", f.send(f.owner, "GET", "/default/a/b", "", at("s3.example")), 200, "")
	f.want("another domain", f.send(f.owner, "GET", "/a/b", "", at("default.other.example")), 404, "NoSuchBucket")
}

// Each operation whose rights the endpoint checks is one of the API.
func TestOperations(t *testing.T) {
	t.Parallel()
	for _, operation := range s3.Operations() {
		if !policies.Covered(operation) {
			t.Errorf("no role has %s", operation)
		}
	}
}
