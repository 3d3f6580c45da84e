package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/s3/fault"
)

// Fresh rejects a signature of another region, and one that is too old, too new, or expired. It needs no secret, so that a
// client with a wrong clock or region gets an error that names it. Several regions may be accepted; the first one is named.
func (s Signature) Fresh(now time.Time, regions ...string) error {
	if !slices.Contains(regions, s.Region) {
		e := fault.New(fault.AuthorizationHeaderMalformed, "The region %q is wrong; expecting %q.", s.Region, regions[0])
		e.Region = regions[0]
		if s.Presigned {
			e.Code = fault.AuthorizationQueryError
		}
		return e
	}
	age := now.Sub(s.At)
	switch {
	case age < -maxSkew || !s.Presigned && age > maxSkew:
		return fault.New(fault.RequestTimeTooSkewed, "The difference between the time of the request and the time of the server is too large.")
	case s.Presigned && age > s.Expires:
		return fault.New(fault.AccessDenied, "Request has expired")
	}
	return nil
}

// Verify compares the signature with that of the request. The result verifies the chunks of its body.
func (s Signature) Verify(r *http.Request, secret string) (Chain, error) {
	if err := s.covers(r); err != nil {
		return Chain{}, err
	}
	canonical, err := s.canonical(r)
	if err != nil {
		return Chain{}, err
	}
	c := Chain{key: signingKey(secret, s.At.Format(dateFormat), s.Region), at: s.At.Format(timeFormat), scope: s.scope()}
	sum := sha256.Sum256([]byte(canonical))
	signed := c.sign(algorithm, hex.EncodeToString(sum[:]))
	if subtle.ConstantTimeCompare(signed, s.value) != 1 {
		return Chain{}, fault.New(fault.SignatureDoesNotMatch, "The request signature we calculated does not match the signature you provided. Check your key and signing method.")
	}
	c.previous = hex.EncodeToString(signed)
	return c, nil
}

func (s Signature) scope() string {
	return strings.Join([]string{s.At.Format(dateFormat), s.Region, service, terminator}, "/")
}

// covers rejects a request with a header that changes its meaning and that is not signed. The recipient of a presigned
// URL must not be able to add one.
func (s Signature) covers(r *http.Request) error {
	if !slices.Contains(s.headers, "host") {
		return fault.New(fault.AccessDenied, "The signature must include the domain name.")
	}
	for name, values := range r.Header {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, "x-amz-") {
			continue
		}
		if len(values) > 1 {
			return fault.New(fault.InvalidArgument, "The request has the header %s more than once.", name)
		}
		if !slices.Contains(s.headers, lower) {
			return fault.New(fault.AccessDenied, "There were headers present in the request which were not signed: %s", lower)
		}
	}
	return nil
}

// canonical returns the canonical request.
func (s Signature) canonical(r *http.Request) (string, error) {
	var b strings.Builder
	b.WriteString(r.Method + "\n" + escape(r.URL.Path, true) + "\n" + s.canonicalQuery() + "\n")
	for _, name := range s.headers {
		value, ok := headerOf(r, name)
		if !ok {
			return "", fault.New(fault.SignatureDoesNotMatch, "The signed header %q is missing.", name)
		}
		b.WriteString(name + ":" + value + "\n")
	}
	b.WriteString("\n" + strings.Join(s.headers, ";") + "\n" + s.Payload)
	return b.String(), nil
}

func (s Signature) canonicalQuery() string {
	var pairs []string
	for name, values := range s.query {
		if s.Presigned && name == "X-Amz-Signature" {
			continue
		}
		for _, value := range values {
			pairs = append(pairs, escape(name, false)+"="+escape(value, false))
		}
	}
	// The separator sorts before every character of a name, unlike the equals sign.
	slices.SortFunc(pairs, func(a, b string) int {
		return strings.Compare(strings.Replace(a, "=", "\x00", 1), strings.Replace(b, "=", "\x00", 1))
	})
	return strings.Join(pairs, "&")
}

// headerOf returns the value of a header as it was signed. The server of net/http removes some from the map.
func headerOf(r *http.Request, name string) (string, bool) {
	values := r.Header[http.CanonicalHeaderKey(name)]
	switch {
	case name == "host":
		return r.Host, true
	case name == "content-length" && len(values) == 0 && r.ContentLength >= 0:
		return strconv.FormatInt(r.ContentLength, 10), true
	case name == "transfer-encoding" && len(values) == 0:
		return strings.Join(r.TransferEncoding, ","), len(r.TransferEncoding) > 0
	}
	trimmed := make([]string, len(values))
	for i, value := range values {
		trimmed[i] = strings.Join(strings.Fields(value), " ")
	}
	return strings.Join(trimmed, ","), len(values) > 0
}

// escape encodes as Signature Version 4 demands, which url.PathEscape and url.QueryEscape do not.
func escape(text string, path bool) string {
	if path && text == "" {
		return "/"
	}
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0 || path && c == '/' {
			b.WriteByte(c)
			continue
		}
		b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
	}
	return b.String()
}

// Escape encodes a key for an XML body with encoding-type=url.
func Escape(text string) string {
	if text == "" {
		return ""
	}
	return escape(text, true)
}

func signingKey(secret, date, region string) []byte {
	key := mac([]byte("AWS4"+secret), date)
	key = mac(key, region)
	key = mac(key, service)
	return mac(key, terminator)
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text))
	return h.Sum(nil)
}

// Chain signs what follows a verified request: each chunk of its body, and the trailer.
type Chain struct {
	key                 []byte
	at, scope, previous string
}

func (c Chain) sign(kind string, lines ...string) []byte {
	return mac(c.key, strings.Join(append([]string{kind, c.at, c.scope}, lines...), "\n"))
}

// next verifies the signature of the next part of a body.
func (c *Chain) next(kind, signature string, lines ...string) error {
	signed := hex.EncodeToString(c.sign(kind, append([]string{c.previous}, lines...)...))
	if subtle.ConstantTimeCompare([]byte(signed), []byte(signature)) != 1 {
		return fault.New(fault.SignatureDoesNotMatch, "The signature of a chunk does not match.")
	}
	c.previous = signed
	return nil
}
