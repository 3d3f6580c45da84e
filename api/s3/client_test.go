package s3_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

func TestMinioClient(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, ctx := f.client(f.owner), t.Context()
	buckets, err := c.ListBuckets(ctx)
	if err != nil || len(buckets) != 1 || buckets[0].Name != bucket || buckets[0].CreationDate.IsZero() {
		t.Fatalf("%+v, %v", buckets, err)
	}
	if found, err := c.BucketExists(ctx, bucket); err != nil || !found {
		t.Fatal(found, err)
	}
	if at, err := c.GetBucketLocation(ctx, bucket); err != nil || at != region {
		t.Fatal(at, err)
	}
	text := strings.Repeat("0123456789", 20_000)
	for _, sum := range []minio.ChecksumType{minio.ChecksumNone, minio.ChecksumCRC32, minio.ChecksumCRC32C, minio.ChecksumSHA1, minio.ChecksumSHA256, minio.ChecksumCRC64NVME} {
		o := minio.PutObjectOptions{ContentType: "text/html", Checksum: sum, SendContentMd5: sum == minio.ChecksumNone}
		if _, err := c.PutObject(ctx, bucket, "data/a +ü.bin", strings.NewReader(text), int64(len(text)), o); err != nil {
			t.Fatalf("%s: %v", sum, err)
		}
	}
	info, err := c.StatObject(ctx, bucket, "data/a +ü.bin", minio.StatObjectOptions{})
	if err != nil || info.Size != int64(len(text)) || !strings.HasSuffix(info.ETag, "-1") || info.ContentType != "application/octet-stream" || time.Since(info.LastModified) > time.Hour {
		t.Fatalf("%+v, %v", info, err)
	}
	if got, err := readAll(ctx, c, "data/a +ü.bin", minio.GetObjectOptions{Checksum: true}); err != nil || got != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	var part minio.GetObjectOptions
	_ = part.SetRange(10, 14)
	if got, err := readAll(ctx, c, "data/a +ü.bin", part); err != nil || got != "01234" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.CopyObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: "copy/b"}, minio.CopySrcOptions{Bucket: bucket, Object: "data/a +ü.bin"}); err != nil {
		t.Error(err)
	}
	if got, err := readAll(ctx, c, "copy/b", minio.GetObjectOptions{}); err != nil || got != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// The REST API has the same files.
	o, err := f.storage.Stat(scoped(f), storage.ScopeOf(f.in(f.Owner)), objectpath.Path{"copy", "b"})
	if err != nil || o.Size != int64(len(text)) || o.CreatedBy != f.Owner.Actor() {
		t.Errorf("%+v, %v", o, err)
	}
	if err := c.RemoveObject(ctx, bucket, "copy/b", minio.RemoveObjectOptions{}); err != nil {
		t.Error(err)
	}
	_, err = c.StatObject(ctx, bucket, "copy/b", minio.StatObjectOptions{})
	wantError(t, "a deleted file", err, "NoSuchKey")
	if n := f.Count(t, `SELECT count(*) FROM storage_objects WHERE deleted_path = 'copy/b' AND purge_at > now()`); n != 1 {
		t.Errorf("%d files can be restored", n)
	}
}

func TestPresignedURLs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, ctx := f.client(f.owner), t.Context()
	put, err := c.PresignedPutObject(ctx, bucket, "a/b.txt", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, url, body string, header ...string) got {
		r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return f.do(r)
	}
	f.want("an upload", send("PUT", put.String(), "hello"), 200, "")
	get, err := c.PresignedGetObject(ctx, bucket, "a/b.txt", time.Minute, map[string][]string{"response-content-type": {"text/html"}, "response-content-disposition": {"inline"}})
	if err != nil {
		t.Fatal(err)
	}
	g := send("GET", get.String(), "")
	if g.status != 200 || g.body != "hello" || g.header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(g.header.Get("Content-Disposition"), "attachment") ||
		g.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(g.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%+v", g)
	}
	f.want("another method", send("DELETE", get.String(), ""), 403, "SignatureDoesNotMatch")
	f.want("another path", send("GET", strings.Replace(get.String(), "b.txt", "c.txt", 1), ""), 403, "SignatureDoesNotMatch")
	f.want("a copy by a header", send("PUT", put.String(), "", "X-Amz-Copy-Source", "/default/a/b.txt"), 403, "AccessDenied")
	f.want("altered", send("GET", get.String()+"&versionId=null", ""), 403, "SignatureDoesNotMatch")
	f.want("for longer", send("GET", strings.Replace(get.String(), "X-Amz-Expires=60", "X-Amz-Expires=600", 1), ""), 403, "SignatureDoesNotMatch")
	short, err := c.PresignedGetObject(ctx, bucket, "a/b.txt", time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.endpoint.Clock = shifted(3 * time.Second)
	f.want("late", send("GET", short.String(), ""), 403, "AccessDenied")
}

func TestFolders(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, ctx := f.client(f.owner), t.Context()
	f.put(c, "empty/", "")
	f.put(c, "full/", "")
	f.put(c, "full/a", "1")
	f.put(c, "full/", "") // once more
	if info, err := c.StatObject(ctx, bucket, "full/", minio.StatObjectOptions{}); err != nil || info.Size != 0 {
		t.Errorf("%+v, %v", info, err)
	}
	if got, err := readAll(ctx, c, "full/", minio.GetObjectOptions{}); err != nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
	_, err := c.StatObject(ctx, bucket, "full", minio.StatObjectOptions{})
	wantError(t, "a folder as a file", err, "NoSuchKey")
	_, err = c.StatObject(ctx, bucket, "full/a/", minio.StatObjectOptions{})
	wantError(t, "a file as a folder", err, "NoSuchKey")
	_, err = c.PutObject(ctx, bucket, "x/", strings.NewReader("text"), 4, minio.PutObjectOptions{})
	wantError(t, "a folder with bytes", err, "InvalidArgument")
	_, err = c.PutObject(ctx, bucket, "full", strings.NewReader("text"), 4, minio.PutObjectOptions{})
	wantError(t, "a file at a folder", err, "InvalidRequest")
	for _, key := range []string{"full/", "full", "empty/", "no/", "no"} {
		if err := c.RemoveObject(ctx, bucket, key, minio.RemoveObjectOptions{}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if got := f.listed(c, minio.ListObjectsOptions{Recursive: true}); got != "full/a" {
		t.Errorf("listed %q", got)
	}
}

func TestDeleteObjects(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, ctx := f.client(f.owner), t.Context()
	for _, key := range []string{"a", "b/c", "b/d"} {
		f.put(c, key, "1")
	}
	objects := make(chan minio.ObjectInfo, 5)
	for _, key := range []string{"a", "b/c", "missing", "b"} {
		objects <- minio.ObjectInfo{Key: key}
	}
	close(objects)
	failed := map[string]string{}
	for e := range c.RemoveObjects(ctx, bucket, objects, minio.RemoveObjectsOptions{}) {
		failed[e.ObjectName] = minio.ToErrorResponse(e.Err).Code
	}
	if len(failed) != 0 {
		t.Errorf("%v", failed)
	}
	upwards := f.send(f.owner, "POST", "/default?delete", "<Delete><Quiet>true</Quiet><Object><Key>../x</Key></Object><Object><Key>no</Key></Object></Delete>", nil)
	if !strings.Contains(upwards.body, "<Key>../x</Key><Code>InvalidArgument</Code>") || strings.Contains(upwards.body, "<Deleted>") {
		t.Errorf("%+v", upwards)
	}
	if got := f.listed(c, minio.ListObjectsOptions{Recursive: true}); got != "b/d" {
		t.Errorf("listed %q", got)
	}
	f.want("no XML", f.send(f.owner, "POST", "/default?delete", "{}", nil), 400, "MalformedXML")
	f.send(f.owner, "PUT", "/default/kept", "text", nil)
	if versioned := f.send(f.owner, "POST", "/default?delete", "<Delete><Object><Key>kept</Key><VersionId>v1</VersionId></Object></Delete>", nil); !strings.Contains(versioned.body, "NotImplemented") {
		t.Errorf("a version: %+v", versioned)
	}
	f.want("the file of a version", f.send(f.owner, "GET", "/default/kept", "", nil), 200, "")
	f.want("a key of the client", f.send(f.owner, "PUT", "/default/kept", "text", func(r *http.Request) {
		r.Header.Set("X-Amz-Server-Side-Encryption-Customer-Algorithm", "AES256")
	}), 501, "NotImplemented")
	f.want("no key", f.send(f.owner, "POST", "/default?delete", "<Delete></Delete>", nil), 400, "MalformedXML")
	f.want("1,001 keys", f.send(f.owner, "POST", "/default?delete", "<Delete>"+strings.Repeat("<Object><Key>x</Key></Object>", 1001)+"</Delete>", nil), 400, "MalformedXML")
	f.want("a large body", f.send(f.owner, "POST", "/default?delete", strings.Repeat(" ", 3<<20), nil), 400, "EntityTooLarge")
	f.want("another MD5", f.send(f.owner, "POST", "/default?delete", "<Delete></Delete>", func(r *http.Request) { r.Header.Set("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==") }), 400, "BadDigest")
}

func TestConditions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.put(f.client(f.owner), "a", "hello")
	head := f.send(f.owner, "HEAD", "/default/a", "", nil)
	etag, modified := head.header.Get("ETag"), head.header.Get("Last-Modified")
	header := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
	past := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		method, path, body string
		change             func(*http.Request)
		status             int
		code               string
	}{
		{"GET", "/default/a", "", header("If-Match", etag), 200, ""},
		{"GET", "/default/a", "", header("If-Match", `"other-1"`), 412, "PreconditionFailed"},
		{"GET", "/default/a", "", header("If-None-Match", etag), 304, ""},
		{"GET", "/default/a", "", header("If-Modified-Since", modified), 304, ""},
		{"GET", "/default/a", "", header("If-Unmodified-Since", past), 412, "PreconditionFailed"},
		{"GET", "/default/a", "", header("Range", "bytes=1-2"), 206, ""},
		{"GET", "/default/a", "", header("Range", "bytes=0-0,2-2"), 200, ""},
		{"GET", "/default/a", "", header("Range", "bytes=9-"), 416, "InvalidRange"},
		{"GET", "/default/a?partNumber=2", "", nil, 501, "NotImplemented"},
		{"PUT", "/default/a", "new", header("If-None-Match", "*"), 412, "PreconditionFailed"},
		{"PUT", "/default/a", "new", header("If-None-Match", etag), 501, "NotImplemented"},
		{"PUT", "/default/a", "new", header("If-Match", `"other-1"`), 412, "PreconditionFailed"},
		{"PUT", "/default/b", "", header("X-Amz-Copy-Source", "/default/a", "X-Amz-Copy-Source-If-Match", `"other-1"`), 412, "PreconditionFailed"},
		{"PUT", "/default/b", "", header("X-Amz-Copy-Source", "/default/a", "X-Amz-Copy-Source-If-None-Match", etag), 412, "PreconditionFailed"},
		{"PUT", "/default/b", "", header("X-Amz-Copy-Source", "/default/a", "X-Amz-Copy-Source-If-Unmodified-Since", past), 412, "PreconditionFailed"},
		{"PUT", "/default/b", "", header("X-Amz-Copy-Source", "/default/a", "X-Amz-Copy-Source-If-Modified-Since", modified), 412, "PreconditionFailed"},
		{"PUT", "/default/b", "", header("X-Amz-Copy-Source", "/default/missing"), 404, "NoSuchKey"},
		{"PUT", "/default/b", "", header("X-Amz-Copy-Source", "/other/a"), 404, "NoSuchBucket"},
		{"PUT", "/default/b", "", header("X-Amz-Copy-Source", "/default/a?versionId=1"), 501, "NotImplemented"},
		{"PUT", "/default/b", "", header("X-Amz-Copy-Source", "/default/%zz"), 400, "InvalidArgument"},
		{"DELETE", "/default/a", "", header("If-Match", `"other-1"`), 412, "PreconditionFailed"},
		{"PUT", "/default/b", "", header("X-Amz-Copy-Source", "/default/a", "X-Amz-Copy-Source-If-Match", etag), 200, ""},
		{"PUT", "/default/a", "new", header("If-Match", etag), 200, ""},
		{"DELETE", "/default/b", "", header("If-Match", etag), 204, ""},
	} {
		f.want(c.method+" "+c.path, f.send(f.owner, c.method, c.path, c.body, c.change), c.status, c.code)
	}
	g := f.send(f.owner, "GET", "/default/a", "", header("X-Amz-Checksum-Mode", "ENABLED"))
	if g.header.Get("X-Amz-Checksum-Sha256") == "" || g.body != "new" {
		t.Errorf("%+v", g)
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, ctx := f.client(f.owner), t.Context()
	// 17 MiB in one request: more than one buffer and one reservation.
	body := bytes.Repeat([]byte("0123456789abcdef"), 17<<16)
	if _, err := c.PutObject(ctx, bucket, "big", bytes.NewReader(body), int64(len(body)), minio.PutObjectOptions{DisableMultipart: true}); err != nil {
		t.Fatal(err)
	}
	from, err := c.GetObject(ctx, bucket, "big", minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(from)
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	f.quota.Store(1 << 20)
	_, err = c.PutObject(ctx, bucket, "more", bytes.NewReader(body[:2<<20]), 2<<20, minio.PutObjectOptions{})
	wantError(t, "above the quota", err, "QuotaExceeded")
}
