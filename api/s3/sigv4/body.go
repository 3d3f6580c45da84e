package sigv4

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/api/s3/fault"
)

// Values of X-Amz-Content-Sha256 that are no hash.
const (
	Unsigned        = "UNSIGNED-PAYLOAD"
	signedChunks    = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	trailerSuffix   = "-TRAILER"
	unsignedChunks  = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	streamingPrefix = "STREAMING-"
)

// Body is the body of a verified request. Its last Read compares what the client has announced: a body that differs ends in
// an error instead of io.EOF.
type Body struct {
	Size int64 // without the framing of chunks; negative: not announced

	from   io.Reader
	checks []*check
	read   int64
	failed error
	// SHA256 of the whole, where the client has sent it.
	SHA256 []byte
}

// BodyOf returns the body of a request whose signature was verified.
func BodyOf(r *http.Request, s Signature, c Chain) (*Body, error) {
	b := &Body{Size: r.ContentLength, from: r.Body}
	var err error
	if b.checks, err = checksOf(r.Header); err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(s.Payload, streamingPrefix):
		err = b.unchunk(r, s, c)
	case s.Payload != Unsigned:
		err = b.hashed(s.Payload)
	}
	for _, c := range b.checks {
		if c.want != nil && strings.EqualFold(c.name, checksumPrefix+"sha256") {
			b.SHA256 = c.want
		}
	}
	return b, err
}

// hashed adds the hash of the signature to the checksums.
func (b *Body) hashed(text string) error {
	want, err := hex.DecodeString(text)
	if err != nil || len(want) != sha256.Size {
		return fault.New(fault.InvalidArgument, "X-Amz-Content-Sha256 must be %s, a streaming form, or a SHA-256 in hexadecimal digits.", Unsigned)
	}
	b.checks, b.SHA256 = append(b.checks, &check{name: "X-Amz-Content-Sha256", code: fault.ContentSHA256Mismatch, sum: sha256.New(), want: want}), want
	return nil
}

func (b *Body) unchunk(r *http.Request, s Signature, c Chain) error {
	signed := strings.TrimSuffix(s.Payload, trailerSuffix) == signedChunks
	if !signed && s.Payload != unsignedChunks {
		return fault.New(fault.NotImplemented, "The body is signed as %q, which is not supported.", s.Payload)
	}
	text, err := singleValue(r.Header, "X-Amz-Decoded-Content-Length")
	if err != nil {
		return err
	}
	if b.Size, err = strconv.ParseInt(text, 10, 64); err != nil || b.Size < 0 {
		return fault.New(fault.MissingContentLength, "The header X-Amz-Decoded-Content-Length is missing or no number.")
	}
	names, err := b.trailers(r.Header, strings.HasSuffix(s.Payload, trailerSuffix))
	if err != nil {
		return err
	}
	b.from = newChunks(r.Body, b.Size, signed, c, names, b.trailer)
	return nil
}

// trailers returns the names of the announced trailers, and adds their checksums.
func (b *Body) trailers(h http.Header, allowed bool) ([]string, error) {
	text, err := singleValue(h, "X-Amz-Trailer")
	if err != nil || text == "" || !allowed {
		return nil, err
	}
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		c, err := checkOf(name)
		if err != nil {
			return nil, err
		}
		if slices.Contains(names, name) {
			return nil, fault.New(fault.InvalidRequest, "X-Amz-Trailer names %q twice.", name)
		}
		names, b.checks = append(names, name), append(b.checks, c)
	}
	return names, nil
}

// trailer receives the value of an announced trailer.
func (b *Body) trailer(name, value string) error {
	for _, c := range b.checks {
		if c.name == name && c.want == nil {
			return c.expect(value)
		}
	}
	return fault.New(fault.InvalidRequest, "The trailer %q arrived twice, or was not announced.", name)
}

// Read reads the body.
func (b *Body) Read(p []byte) (int, error) {
	if b.failed != nil {
		return 0, b.failed
	}
	n, err := b.from.Read(p)
	b.read += int64(n)
	for _, c := range b.checks {
		_, _ = c.sum.Write(p[:n])
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		err = b.end()
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fault.New(fault.IncompleteBody, "The body has fewer bytes than its Content-Length.")
	}
	b.failed = err
	return n, err
}

// end compares the whole body with what was announced.
func (b *Body) end() error {
	if b.Size >= 0 && b.read != b.Size {
		return fault.New(fault.IncompleteBody, "The body has %d bytes, and %d were announced.", b.read, b.Size)
	}
	for _, c := range b.checks {
		switch {
		case c.want == nil:
			return fault.New(fault.InvalidRequest, "The announced trailer %s is missing.", c.name)
		case !bytes.Equal(c.sum.Sum(nil), c.want):
			return fault.New(c.code, "The %s you specified did not match what we received.", c.name)
		}
	}
	return io.EOF
}
