package s3_test

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// Metadata of a file are those of its upload, in one request or in parts, and of a copy those of its original or other ones.
func TestMetadata(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, ctx := f.client(f.owner), t.Context()
	core := minio.Core{Client: c}
	mtime := map[string]string{"Mtime": "1767603604.5", "A": "b, c"}
	if _, err := c.PutObject(ctx, bucket, "a", strings.NewReader("1"), 1, minio.PutObjectOptions{UserMetadata: maps.Clone(mtime), ContentType: "text/plain"}); err != nil {
		t.Fatal(err)
	}
	want := func(key string, m map[string]string, mediaType string) {
		t.Helper()
		info, err := c.StatObject(ctx, bucket, key, minio.StatObjectOptions{})
		if err != nil || !maps.Equal(map[string]string(info.UserMetadata), m) || info.ContentType != mediaType {
			t.Errorf("%s: %v %s, want %v %s: %v", key, info.UserMetadata, info.ContentType, m, mediaType, err)
		}
	}
	want("a", mtime, "text/plain; charset=utf-8")
	copied := func(to string, o minio.CopyDestOptions) error {
		o.Bucket, o.Object = bucket, to
		_, err := c.CopyObject(ctx, o, minio.CopySrcOptions{Bucket: bucket, Object: "a"})
		return err
	}
	other := map[string]string{"Mtime": "2"}
	if err := copied("b", minio.CopyDestOptions{}); err != nil {
		t.Error(err)
	}
	want("b", mtime, "text/plain; charset=utf-8")
	if err := copied("c", minio.CopyDestOptions{ReplaceMetadata: true, UserMetadata: maps.Clone(other)}); err != nil {
		t.Error(err)
	}
	want("c", other, "application/octet-stream")
	wantError(t, "a copy to itself", copied("a", minio.CopyDestOptions{}), "InvalidRequest")
	if err := copied("a", minio.CopyDestOptions{ReplaceMetadata: true, UserMetadata: maps.Clone(other)}); err != nil {
		t.Error(err)
	}
	want("a", other, "application/octet-stream")
	if text, err := readAll(ctx, c, "a", minio.GetObjectOptions{}); err != nil || text != "1" {
		t.Errorf("%q, %v", text, err)
	}

	id, err := core.NewMultipartUpload(ctx, bucket, "parts", minio.PutObjectOptions{UserMetadata: maps.Clone(mtime)})
	if err != nil {
		t.Fatal(err)
	}
	part, err := core.PutObjectPart(ctx, bucket, "parts", id, 1, bytes.NewReader([]byte("x")), 1, minio.PutObjectPartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := core.CompleteMultipartUpload(ctx, bucket, "parts", id, []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	want("parts", mtime, "application/octet-stream")

	for _, m := range []map[string]string{mtime, other} {
		if _, err := c.PutObject(ctx, bucket, "folder/", http.NoBody, 0, minio.PutObjectOptions{UserMetadata: maps.Clone(m)}); err != nil {
			t.Fatal(err)
		}
		want("folder/", m, "application/x-directory")
	}
	f.put(c, "a", "22")
	want("a", map[string]string{}, "application/octet-stream")
}

func TestMetadataAreBounded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	put := func(path string, header map[string]string) got {
		return f.send(f.owner, "PUT", path, "", func(r *http.Request) {
			for name, value := range header {
				r.Header.Set(name, value)
			}
		})
	}
	f.want("2 KiB", put("/default/a", map[string]string{"X-Amz-Meta-A": strings.Repeat("x", 2047)}), 200, "")
	f.want("a byte more", put("/default/a", map[string]string{"X-Amz-Meta-A": strings.Repeat("x", 2048)}), 400, "MetadataTooLarge")
	f.want("two of them", put("/default/a", map[string]string{"X-Amz-Meta-A": strings.Repeat("x", 1024), "X-Amz-Meta-B": strings.Repeat("x", 1024)}), 400, "MetadataTooLarge")
	f.want("of a folder", put("/default/b/", map[string]string{"X-Amz-Meta-A": strings.Repeat("x", 2048)}), 400, "MetadataTooLarge")
	f.want("of an upload in parts", f.send(f.owner, "POST", "/default/c?uploads", "", func(r *http.Request) { r.Header.Set("X-Amz-Meta-A", strings.Repeat("x", 2048)) }), 400, "MetadataTooLarge")
	f.want("another directive", put("/default/d", map[string]string{"X-Amz-Copy-Source": "/default/a", "X-Amz-Metadata-Directive": "MERGE"}), 400, "InvalidArgument")
	f.want("in the URL", put("/default/u?x-amz-meta-a="+strings.Repeat("x", 2048), nil), 400, "MetadataTooLarge")
	f.want("in the URL", put("/default/u?x-amz-meta-a=1", nil), 200, "")
	if g := f.send(f.owner, "HEAD", "/default/u", "", nil); g.header.Get("X-Amz-Meta-A") != "1" {
		t.Errorf("metadata of a URL: %v", g.header)
	}
	f.want("rights of others in the URL", put("/default/v?X-Amz-Acl=public-read", nil), 501, "NotImplemented")
	missing := f.send(f.owner, "GET", "/default/a", "", func(r *http.Request) { r.Header.Set("If-Match", `"0"`) })
	f.want("a failed precondition", missing, 412, "PreconditionFailed")
	if missing.header.Get("X-Amz-Meta-A") != "" {
		t.Error("an error has metadata")
	}
}

// A header whose promise is not fulfilled is rejected before anything changes.
func TestHeadersWithoutEffectAreRejected(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.client(f.owner)
	f.put(c, "source", "1")
	for name, value := range map[string]string{
		"X-Amz-Acl": "public-read", "X-Amz-Server-Side-Encryption": "AES256", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "k", "X-Amz-Storage-Class": "GLACIER",
		"X-Amz-Website-Redirect-Location": "/x", "X-Amz-Tagging-Directive": "REPLACE", "X-Amz-Server-Side-Encryption-Bucket-Key-Enabled": "true",
	} {
		set := func(r *http.Request) { r.Header.Set(name, value) }
		f.want(name, f.send(f.owner, "PUT", "/default/a", "1", set), 501, "NotImplemented")
		f.want(name+" of a copy", f.send(f.owner, "PUT", "/default/a", "", func(r *http.Request) {
			set(r)
			r.Header.Set("X-Amz-Copy-Source", "/default/source")
		}), 501, "NotImplemented")
		f.want(name+" of an upload", f.send(f.owner, "POST", "/default/a?uploads", "", set), 501, "NotImplemented")
	}
	if all := f.listed(c, minio.ListObjectsOptions{Recursive: true}); all != "source" {
		t.Errorf("there are %q", all)
	}
	for name, value := range map[string]string{"X-Amz-Acl": "private", "x-amz-acl": "bucket-owner-full-control", "X-Amz-Storage-Class": "STANDARD"} {
		g := f.send(f.owner, "PUT", "/default/a", "1", func(r *http.Request) { r.Header.Set(name, value) })
		f.want(name+": "+value, g, 200, "")
	}
}
