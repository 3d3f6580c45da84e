package s3_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/gpuaas/gpuaas/product/storage/accesskey"
)

const mib = 1 << 20

func TestUploadsInParts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := minio.Core{Client: f.client(f.owner)}
	ctx := t.Context()
	one, two := bytes.Repeat([]byte("1"), 5*mib), []byte("the end")
	id, err := c.NewMultipartUpload(ctx, bucket, "big/file.bin", minio.PutObjectOptions{ContentType: "text/plain"})
	if err != nil {
		t.Fatal(err)
	}
	put := func(number int, body []byte) minio.ObjectPart {
		t.Helper()
		p, err := c.PutObjectPart(ctx, bucket, "big/file.bin", id, number, bytes.NewReader(body), int64(len(body)), minio.PutObjectPartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	last := put(2, two)
	first := put(1, one)
	list, err := c.ListObjectParts(ctx, bucket, "big/file.bin", id, 0, 1)
	if err != nil || len(list.ObjectParts) != 1 || !list.IsTruncated || list.NextPartNumberMarker != 1 || list.ObjectParts[0].Size != 5*mib {
		t.Errorf("%+v, %v", list, err)
	}
	uploads, err := c.ListMultipartUploads(ctx, bucket, "big/", "", "", "", 10)
	if err != nil || len(uploads.Uploads) != 1 || uploads.Uploads[0].UploadID != id {
		t.Errorf("%+v, %v", uploads, err)
	}
	part := func(p minio.ObjectPart, etag string) minio.CompletePart {
		if etag == "" {
			etag = p.ETag
		}
		return minio.CompletePart{PartNumber: p.PartNumber, ETag: etag}
	}
	complete := func(parts ...minio.CompletePart) error {
		_, err := c.CompleteMultipartUpload(ctx, bucket, "big/file.bin", id, parts, minio.PutObjectOptions{})
		return err
	}
	wantError(t, "another ETag", complete(part(first, last.ETag), part(last, "")), "InvalidPart")
	wantError(t, "a part that has not arrived", complete(part(first, ""), minio.CompletePart{PartNumber: 3, ETag: first.ETag}), "InvalidPart")
	order := f.send(f.owner, "POST", "/default/big/file.bin?uploadId="+id, fmt.Sprintf("<CompleteMultipartUpload><Part><PartNumber>2</PartNumber><ETag>%s</ETag></Part><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>", last.ETag, first.ETag), nil)
	f.want("descending numbers", order, 400, "InvalidPartOrder")
	f.want("no part", f.send(f.owner, "POST", "/default/big/file.bin?uploadId="+id, "<CompleteMultipartUpload></CompleteMultipartUpload>", nil), 400, "MalformedXML")
	f.want("another key", f.send(f.owner, "PUT", "/default/other?partNumber=1&uploadId="+id, "x", nil), 404, "NoSuchUpload")
	f.want("no id", f.send(f.owner, "PUT", "/default/other?partNumber=1&uploadId=x", "x", nil), 404, "NoSuchUpload")
	for _, number := range []string{"0", "10001", "x", ""} {
		f.want("part "+number, f.send(f.owner, "PUT", "/default/big/file.bin?partNumber="+number+"&uploadId="+id, "x", nil), 400, "InvalidArgument")
	}
	f.want("another hash", f.send(f.owner, "PUT", "/default/big/file.bin?partNumber=2&uploadId="+id, "xx", func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", strings.Repeat("0", 64)) }), 400, "XAmzContentSHA256Mismatch")
	if err := complete(part(first, ""), part(last, "")); err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(ctx, c.Client, "big/file.bin", minio.GetObjectOptions{}); err != nil || got != string(one)+string(two) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := complete(part(first, ""), part(last, "")); err != nil {
		t.Errorf("a repetition: %v", err)
	}
	f.want("a part of a completed upload", f.send(f.owner, "PUT", "/default/big/file.bin?partNumber=3&uploadId="+id, "x", nil), 404, "NoSuchUpload")
}

func TestCopiedAndAbortedUploads(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := minio.Core{Client: f.client(f.owner)}
	ctx := t.Context()
	f.put(c.Client, "source", strings.Repeat("0123456789", mib))
	id, err := c.NewMultipartUpload(ctx, bucket, "copy", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var parts []minio.CompletePart
	for number, at := range map[int][2]int64{1: {0, 5 * mib}, 2: {5 * mib, 10*mib - 5*mib}} {
		p, err := c.CopyObjectPart(ctx, bucket, "source", bucket, "copy", id, number, at[0], at[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	for _, at := range []string{"bytes=5-4", "bytes=0-10485760", "bytes=0-", "x"} {
		g := f.send(f.owner, "PUT", "/default/copy?partNumber=3&uploadId="+id, "", func(r *http.Request) {
			r.Header.Set("X-Amz-Copy-Source", "default/source")
			r.Header.Set("X-Amz-Copy-Source-Range", at)
		})
		f.want(at, g, 400, "InvalidArgument")
	}
	if parts[0].PartNumber == 2 {
		parts[0], parts[1] = parts[1], parts[0]
	}
	if _, err := c.CompleteMultipartUpload(ctx, bucket, "copy", id, parts, minio.PutObjectOptions{UserMetadata: map[string]string{"X-Amz-Checksum-Crc32c": "AAAAAA=="}}); err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(ctx, c.Client, "copy", minio.GetObjectOptions{}); err != nil || got != strings.Repeat("0123456789", mib) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if id, err = c.NewMultipartUpload(ctx, bucket, "aborted", minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.AbortMultipartUpload(ctx, bucket, "aborted", id); err != nil {
		t.Error(err)
	}
	_, err = c.PutObjectPart(ctx, bucket, "aborted", id, 1, strings.NewReader("x"), 1, minio.PutObjectPartOptions{})
	wantError(t, "a part of an aborted upload", err, "NoSuchUpload")
	reader := f.key(f.in(f.Owner), accesskey.NewKey{Name: "reader", ReadOnly: true})
	f.want("a reader", f.send(reader, "POST", "/default/x?uploads", "", nil), 403, "AccessDenied")
}
