// Package sigv4 verifies the signatures of S3 requests (AWS Signature Version 4): in the Authorization header, in the query
// of a presigned URL, and of each chunk of a streamed body. It reads no database and no clock.
package sigv4

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/s3/fault"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	timeFormat = "20060102T150405Z"
	dateFormat = "20060102"
	terminator = "aws4_request"
	service    = "s3"

	// maxSkew is the difference of the clocks of client and server that S3 accepts.
	maxSkew = 15 * time.Minute
	// maxExpires is the longest validity of a presigned URL in S3.
	maxExpires = 7 * 24 * time.Hour
)

// Signature is the signature of a request, not verified yet.
type Signature struct {
	KeyID     string
	At        time.Time
	Expires   time.Duration // of a presigned URL; otherwise zero
	Presigned bool
	Region    string
	Payload   string // X-Amz-Content-Sha256: the hash of the body, or how the body is signed

	headers []string // the signed ones, sorted
	value   []byte
	query   url.Values
}

// Parse reads the signature of a request. It accepts one signature only.
func Parse(r *http.Request) (Signature, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Signature{}, fault.New(fault.InvalidArgument, "The query is malformed.")
	}
	lines := r.Header["Authorization"]
	_, presigned := query["X-Amz-Algorithm"]
	switch {
	case len(lines) > 1 || len(lines) == 1 && presigned:
		return Signature{}, fault.New(fault.InvalidArgument, "Only one signature is allowed.")
	case presigned:
		return parseQuery(r, query)
	case len(lines) == 0:
		return Signature{}, fault.New(fault.AccessDenied, "The request has no signature.")
	}
	return parseHeader(r, query, lines[0])
}

func parseHeader(r *http.Request, query url.Values, line string) (Signature, error) {
	rest, ok := strings.CutPrefix(line, algorithm)
	if !ok {
		return Signature{}, fault.New(fault.InvalidRequest, "The signature must be of %s.", algorithm)
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(field), "=")
		if _, twice := fields[name]; !found || twice {
			return Signature{}, malformed("The Authorization header is malformed.")
		}
		fields[name] = value
	}
	s := Signature{query: query}
	at, err := singleValue(r.Header, "X-Amz-Date")
	if err != nil {
		return s, err
	}
	if s.Payload, err = singleValue(r.Header, "X-Amz-Content-Sha256"); err != nil {
		return s, err
	}
	if s.Payload == "" {
		return s, fault.New(fault.InvalidRequest, "The header X-Amz-Content-Sha256 is missing.")
	}
	if at == "" {
		if at, err = httpDate(r.Header); err != nil {
			return s, err
		}
	}
	return s, s.set(fields["Credential"], fields["SignedHeaders"], fields["Signature"], at, malformed)
}

// httpDate returns the Date header in the form of X-Amz-Date.
func httpDate(h http.Header) (string, error) {
	text, err := singleValue(h, "Date")
	if err != nil {
		return "", err
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return "", fault.New(fault.AccessDenied, "The request has no valid X-Amz-Date or Date header.")
	}
	return at.UTC().Format(timeFormat), nil
}

func parseQuery(r *http.Request, query url.Values) (Signature, error) {
	s := Signature{query: query, Presigned: true, Payload: Unsigned}
	for _, name := range []string{"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature"} {
		if len(query[name]) != 1 {
			return s, queryError("The query must contain %s once.", name)
		}
	}
	if query.Get("X-Amz-Algorithm") != algorithm {
		return s, queryError("X-Amz-Algorithm must be %s.", algorithm)
	}
	seconds, err := strconv.ParseInt(query.Get("X-Amz-Expires"), 10, 32)
	s.Expires = time.Duration(seconds) * time.Second
	if err != nil || s.Expires <= 0 || s.Expires > maxExpires {
		return s, queryError("X-Amz-Expires must be between 1 and %d.", int(maxExpires.Seconds()))
	}
	text, err := singleValue(r.Header, "X-Amz-Content-Sha256")
	switch values := query["X-Amz-Content-Sha256"]; {
	case err != nil:
		return s, err
	case text != "":
		s.Payload = text
	case len(values) == 1:
		s.Payload = values[0]
	}
	return s, s.set(query.Get("X-Amz-Credential"), query.Get("X-Amz-SignedHeaders"), query.Get("X-Amz-Signature"), query.Get("X-Amz-Date"), queryMalformed)
}

// set reads the fields that both forms have.
func (s *Signature) set(credential, headers, value, at string, refuse func(string) error) (err error) {
	if s.At, err = time.Parse(timeFormat, at); err != nil || s.At.Format(timeFormat) != at {
		return refuse("The date must have the form " + timeFormat + ".")
	}
	scope := strings.Split(credential, "/")
	if len(scope) != 5 || scope[0] == "" {
		return refuse("The credential must be KEY/DATE/REGION/s3/aws4_request.")
	}
	s.KeyID, s.Region = scope[0], scope[2]
	switch {
	case scope[1] != at[:len(dateFormat)]:
		return refuse("The date of the credential differs from the date of the request.")
	case scope[3] != service || scope[4] != terminator:
		return refuse("The credential must end with s3/aws4_request.")
	}
	if s.value, err = hex.DecodeString(value); err != nil || len(s.value) != 32 || strings.ToLower(value) != value {
		return refuse("The signature must have 64 hexadecimal digits.")
	}
	s.headers = strings.Split(headers, ";")
	if !slices.IsSorted(s.headers) || len(slices.Compact(slices.Clone(s.headers))) != len(s.headers) || slices.Contains(s.headers, "") {
		return refuse("The signed headers must be sorted and distinct.")
	}
	for _, name := range s.headers {
		if name != strings.ToLower(name) {
			return refuse("The signed headers must be in lower case.")
		}
	}
	return nil
}

func malformed(text string) error { return fault.New(fault.AuthorizationHeaderMalformed, "%s", text) }

func queryMalformed(text string) error { return queryError("%s", text) }

func queryError(format string, args ...any) error {
	return fault.New(fault.AuthorizationQueryError, format, args...)
}

// singleValue returns the value of a header that a request may have once.
func singleValue(h http.Header, name string) (string, error) {
	switch values := h[name]; len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", fault.New(fault.InvalidArgument, "The request has the header %s more than once.", name)
}
