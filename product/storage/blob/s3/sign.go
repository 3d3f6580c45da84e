package s3

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// longest is the longest life of a signature.
const longest = 7 * 24 * time.Hour

// answers are the headers that S3 sets on request.
var answers = []string{"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Type", "Expires"}

// Sign signs a request for one method, object or part, size and checksum. A client that sends a body of another length
// sends another Content-Length, which the signature covers.
func (s *Store) Sign(ctx context.Context, r blob.Request) (blob.Signed, error) {
	if r.Life < time.Second || r.Life > longest {
		return blob.Signed{}, fmt.Errorf("a signature for %s: not between one second and seven days", r.Life)
	}
	query, headers := url.Values{}, http.Header{}
	var err error
	switch r.Method {
	case http.MethodGet:
		err = answer(query, r.Answer)
	case http.MethodPut:
		err = s.signBody(query, headers, r)
	default:
		err = errors.New("a signature for " + r.Method)
	}
	if err != nil {
		return blob.Signed{}, err
	}
	signed := headers.Clone()
	if r.Method == http.MethodPut {
		signed.Set("Content-Length", strconv.FormatInt(r.Size, 10))
	}
	expires := s.clock.Now().Add(r.Life)
	at, err := s.core.PresignHeader(ctx, r.Method, s.bucket, s.key(r.ID), r.Life, query, signed)
	if err != nil {
		return blob.Signed{}, mapped(ctx, err, nil)
	}
	return blob.Signed{URL: at.String(), Headers: headers, Expires: expires}, nil
}

func answer(query url.Values, headers map[string]string) error {
	for name, value := range headers {
		if !slices.Contains(answers, http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("the object store cannot answer with the header %q", name)
		}
		query.Set("response-"+strings.ToLower(name), value)
	}
	return nil
}

// signBody adds what the signature of a body covers in addition to its length.
func (s *Store) signBody(query url.Values, headers http.Header, r blob.Request) error {
	if r.Size < 0 || r.Size > blob.MaxPart {
		return fmt.Errorf("a signature for %d bytes: %w", r.Size, blob.ErrPart)
	}
	switch {
	case r.Part == 0 && r.Upload == "":
		if s.sse != nil {
			s.sse.Marshal(headers)
		}
	case r.Upload == "":
		return fmt.Errorf("a part of no upload: %w", blob.ErrPart)
	default:
		if err := blob.CheckParts([]blob.Part{{Number: r.Part}}); err != nil {
			return err
		}
		if r.SHA256 == nil && !s.noSums {
			return fmt.Errorf("a signature for a part without its SHA-256: %w", blob.ErrPart)
		}
		query.Set("partNumber", strconv.Itoa(r.Part))
		query.Set("uploadId", r.Upload)
	}
	if r.SHA256 != nil && !s.noSums {
		headers.Set(checksumHeader, base64.StdEncoding.EncodeToString(r.SHA256))
	}
	return nil
}
