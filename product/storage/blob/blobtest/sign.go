package blobtest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/product/storage/blob"
)

const life = time.Minute

// signer is a store, and the client of its signed requests.
type signer struct {
	blob.Store

	client *http.Client
}

// send sends a signed request, altered by change, and returns the status and the header and body of the response.
func send(t *testing.T, s signer, r blob.Request, body []byte, change func(*http.Request)) (int, http.Header, []byte) {
	t.Helper()
	signed, err := s.Sign(t.Context(), r)
	if err != nil {
		t.Fatalf("sign %s: %v", r.Method, err)
	}
	if signed.Expires.IsZero() {
		t.Error("no expiry")
	}
	var reader io.Reader
	if r.Method == http.MethodPut {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.Method, signed.URL, reader)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, signed.Headers)
	change(req)
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, got
}

func unchanged(*http.Request) {}

func signing(t *testing.T, store blob.Store, client *http.Client) {
	t.Helper()
	s := signer{store, client}
	content := []byte("the content")
	id := put(t, s, content)
	if _, err := s.Sign(t.Context(), blob.Request{Method: http.MethodGet, ID: id, Life: life}); errors.Is(err, blob.ErrUnsigned) {
		t.Skip("this object store signs no URLs")
	}
	t.Run("get", func(t *testing.T) { signedGet(t, s, content) })
	t.Run("put", func(t *testing.T) { signedPut(t, s, content) })
	t.Run("part", func(t *testing.T) { signedPart(t, s, content) })
	for name, r := range map[string]blob.Request{
		"another method":   {Method: http.MethodDelete, ID: id, Life: life},
		"no life":          {Method: http.MethodGet, ID: id},
		"too long a life":  {Method: http.MethodGet, ID: id, Life: 8 * 24 * time.Hour},
		"an unknown field": {Method: http.MethodGet, ID: id, Life: life, Answer: map[string]string{"Set-Cookie": "a=b"}},
		"no size":          {Method: http.MethodPut, ID: id, Life: life, Size: -1},
		"a part of none":   {Method: http.MethodPut, ID: id, Life: life, Part: 1},
		"part 10,001":      {Method: http.MethodPut, ID: id, Upload: "u", Part: blob.MaxParts + 1, Life: life},
	} {
		if signed, err := s.Sign(t.Context(), r); err == nil {
			t.Errorf("%s is signed: %s", name, signed.URL)
		}
	}
}

func signedGet(t *testing.T, s signer, content []byte) {
	t.Helper()
	id := put(t, s, content)
	r := blob.Request{Method: http.MethodGet, ID: id, Life: life, Answer: map[string]string{"Content-Disposition": `attachment; filename="a b.txt"`, "Content-Type": "text/plain"}}
	status, header, got := send(t, s, r, nil, unchanged)
	if status != http.StatusOK || !bytes.Equal(got, content) || header.Get("Content-Disposition") != r.Answer["Content-Disposition"] || header.Get("Content-Type") != "text/plain" {
		t.Errorf("%d, %v, %s", status, header, got)
	}
	if status, _, got := send(t, s, r, nil, func(r *http.Request) { r.Header.Set("Range", "bytes=4-6") }); status != http.StatusPartialContent || string(got) != "con" {
		t.Errorf("a range: %d, %s", status, got)
	}
	other := put(t, s, []byte("other"))
	for name, change := range map[string]func(*http.Request){
		"another object": func(r *http.Request) { r.URL.Path = strings.Replace(r.URL.Path, id.String(), other.String(), 1) },
		"another method": func(r *http.Request) { r.Method = http.MethodDelete },
		"another header of the response": func(r *http.Request) {
			q := r.URL.Query()
			q.Set("response-content-type", "text/html")
			r.URL.RawQuery = q.Encode()
		},
	} {
		if status, _, _ := send(t, s, r, nil, change); status != http.StatusForbidden {
			t.Errorf("%s: %d", name, status)
		}
	}
	equal(t, "the object", get(t, s, id, 0, -1), content)
}

func signedPut(t *testing.T, s signer, content []byte) {
	t.Helper()
	sum := sha256.Sum256(content)
	r := blob.Request{Method: http.MethodPut, ID: NewID(t), Size: int64(len(content)), SHA256: sum[:], Life: life}
	for name, body := range map[string][]byte{"other bytes": []byte("the c0ntent"), "too short": content[1:], "too long": append([]byte("x"), content...)} {
		if name == "other bytes" && !checks(t, s, r) {
			continue
		}
		if status, _, got := send(t, s, r, body, unchanged); status < 400 {
			t.Errorf("%s: %d, %s", name, status, got)
		}
		absent(t, s, r.ID)
	}
	withoutChecksum := func(r *http.Request) { r.Header.Del("X-Amz-Checksum-Sha256") }
	if status, _, got := send(t, s, r, content, withoutChecksum); status < 400 && checks(t, s, r) {
		t.Errorf("without the checksum: %d, %s", status, got)
	}
	if status, _, got := send(t, s, r, content, unchanged); status != http.StatusOK {
		t.Fatalf("%d, %s", status, got)
	}
	equal(t, "the object", get(t, s, r.ID, 0, -1), content)
}

// checks reports whether the store verifies the checksum of a signed request.
func checks(t *testing.T, s signer, r blob.Request) bool {
	t.Helper()
	signed, err := s.Sign(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return signed.Headers.Get("X-Amz-Checksum-Sha256") != ""
}

func signedPart(t *testing.T, s signer, content []byte) {
	t.Helper()
	u := begin(t, s)
	sum := sha256.Sum256(content)
	r := blob.Request{Method: http.MethodPut, ID: u.ID, Upload: u.Handle, Part: 2, Size: int64(len(content)), SHA256: sum[:], Life: life}
	if checks(t, s, r) {
		if status, _, got := send(t, s, r, []byte("the c0ntent"), unchanged); status < 400 {
			t.Errorf("other bytes: %d, %s", status, got)
		}
		if got := stored(t, s, u); len(got) != 0 {
			t.Errorf("parts %+v", got)
		}
	}
	if status, _, got := send(t, s, r, content, unchanged); status != http.StatusOK {
		t.Fatalf("%d, %s", status, got)
	}
	// The server transports the first part of the same upload.
	first := Bytes(blob.MinPart)
	one := putPart(t, s, u, 1, first)
	parts := stored(t, s, u)
	if len(parts) != 2 || parts[0] != one || parts[1].Size != int64(len(content)) {
		t.Fatalf("parts %+v", parts)
	}
	if err := s.Complete(t.Context(), u, parts); err != nil {
		t.Fatal(err)
	}
	equal(t, "the object", get(t, s, u.ID, 0, -1), slices.Concat(first, content))
}
