package middleware

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Canonical names of headers. The code sets them directly in the map, without http.Header.Set,
// which would canonicalise them again.
const (
	correlationHeader = "X-Correlation-Id"
	traceHeader       = "Traceparent"
)

// correlate sets the correlation id and the security headers, and writes the log line.
func (s *Chain) correlate(c *gin.Context) {
	started := s.Clock.Now()
	s.Front.unwrap(c.Request)
	r := &request.Call{Context: c.Request.Context(), URL: c.Request.URL}
	r.CorrelationID = correlationOf(first(c.Request.Header[correlationHeader]), started)
	r.Request = *c.Request.WithContext(r)
	c.Request = &r.Request

	h := c.Writer.Header()
	r.Header(h, correlationHeader, request.AtCorrelation, r.CorrelationID)
	h["X-Content-Type-Options"] = nosniff
	h["Cache-Control"] = noStore
	h["Content-Security-Policy"] = showNothing
	h["Referrer-Policy"] = noReferrer
	if s.Notice != nil {
		if n := s.Notice(); n != nil {
			h[NoticeHeader] = n
		}
	}
	if c.Request.TLS != nil {
		h["Strict-Transport-Security"] = hsts
	}
	if takeTrace(r, c.Request.Header[traceHeader]); r.Traceparent != "" {
		r.Header(h, traceHeader, request.AtTrace, r.Traceparent)
	}
	c.Next()
	took := s.Clock.Now().Sub(started)
	s.measure(c.Writer.Status(), r, took)
	s.log(c, r, took.Microseconds())
}

// log writes the log line of the request.
func (s *Chain) log(c *gin.Context, r *request.Call, micros int64) {
	level := levelOf(c.Writer.Status(), r)
	if !s.Log.Enabled(r, level) {
		return
	}
	s.Log.LogAttrs(r, level, "request",
		slog.String("correlation_id", r.CorrelationID),
		slog.String("operation", operationOf(r)),
		slog.String("method", c.Request.Method),
		slog.String("path", c.FullPath()),
		slog.Int("status", c.Writer.Status()),
		slog.Int64("duration_us", micros),
		nonEmpty("rule", r.Rule),
		nonEmpty("actor", r.Actor),
		nonEmpty("tenant_id", r.Tenant))
}

// operationOf returns the id of the operation of a request, or none.
func operationOf(r *request.Call) string {
	if r.Op == nil {
		return "none"
	}
	return r.Op.ID
}

// nonEmpty returns an attribute, or an empty one, which no handler writes, for an empty value.
func nonEmpty(key, value string) slog.Attr {
	if value == "" {
		return slog.Attr{}
	}
	return slog.String(key, value)
}

// name sets the texts that name the caller, once for all who need them.
func name(r *request.Call) {
	var room [96]byte
	kind, id := "user:", r.Caller.User.UUID
	if r.Caller.ServiceAccount != (ids.ServiceAccount{}) {
		kind, id = "service-account:", r.Caller.ServiceAccount.UUID
	}
	text := appendID(append(room[:0], kind...), id)
	cut := len(text)
	if r.Caller.Tenant != (ids.Tenant{}) {
		text = appendID(text, r.Caller.Tenant.UUID)
	}
	all := string(text)
	r.Actor, r.Principal, r.Tenant = all[:cut], all[len(kind):cut], all[cut:]
}

// All responses share these slices, so that they cost no allocation. No code appends to them: a
// handler that needs another value sets its own slice.
var (
	nosniff = []string{"nosniff"}
	noStore = []string{"no-store"}
	hsts    = []string{"max-age=31536000"}
	// An answer of the API is no page: a browser that is made to show it as one
	// loads and runs nothing. Pages set what they need.
	showNothing = []string{"default-src 'none'; frame-ancestors 'none'"}
	noReferrer  = []string{"no-referrer"}
)

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// levelOf returns the level of the log line. Probes arrive every few seconds and stay out of the usual
// log.
func levelOf(status int, r *request.Call) slog.Level {
	switch {
	case status >= http.StatusInternalServerError:
		return slog.LevelWarn
	case r.Op != nil && r.Op.Public && !r.Op.Write:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// maxCorrelation limits the length of a client's id, which appears in logs, events and audit rows.
const maxCorrelation = 64

// correlationOf returns the client's id if it contains only plain characters, and otherwise a new
// id.
func correlationOf(asked string, now time.Time) string {
	if asked == "" || len(asked) > maxCorrelation {
		return newCorrelation(now)
	}
	for _, b := range []byte(asked) {
		plain := b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '-' || b == '_' || b == '.'
		if !plain {
			return newCorrelation(now)
		}
	}
	return asked
}

// newCorrelation returns a UUIDv7. The function of the library costs one more allocation.
func newCorrelation(now time.Time) string {
	var id uuid.UUID
	_, _ = rand.Read(id[6:]) // never fails: it ends the process instead
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	var text [36]byte
	return string(appendID(text[:0], id))
}

// appendID writes an id as its String does, without one.
func appendID(to []byte, id uuid.UUID) []byte {
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			to = append(to, '-')
		}
		to = hex.AppendEncode(to, []byte{b})
	}
	return to
}

// takeTrace sets the trace of the request: that of our span, or that of the client where no tracer
// runs. A malformed trace is ignored.
func takeTrace(r *request.Call, sent []string) {
	if span := trace.SpanContextFromContext(r.Context); span.IsValid() {
		r.Traceparent = fmt.Sprintf("00-%s-%s-%s", span.TraceID(), span.SpanID(), span.TraceFlags())
		return
	}
	if len(sent) == 1 && isTrace(sent[0]) {
		r.Traceparent = sent[0][:traceLength]
		r.Context = trace.ContextWithRemoteSpanContext(r.Context, spanOf(r.Traceparent)) // for the lines of the log
	}
}

// spanOf reads a traceparent of the right form.
func spanOf(traceparent string) trace.SpanContext {
	of := trace.SpanContextConfig{Remote: true}
	_, _ = hex.Decode(of.TraceID[:], []byte(traceparent[3:35]))
	_, _ = hex.Decode(of.SpanID[:], []byte(traceparent[36:52]))
	return trace.NewSpanContext(of)
}

// traceLength is the length of a traceparent of version 00: version, trace, parent and flags.
const traceLength = 2 + 1 + 32 + 1 + 16 + 1 + 2

// isTrace checks the form of W3C Trace Context: ids of zeros are none, version ff
// is forbidden, and only a later version may go on after the flags.
func isTrace(s string) bool {
	if len(s) < traceLength || s[2] != '-' || s[35] != '-' || s[52] != '-' || s[:2] == "ff" {
		return false
	}
	if len(s) > traceLength && (s[:2] == "00" || s[traceLength] != '-') {
		return false
	}
	return isHex(s[:2]) && isHex(s[53:55]) && isID(s[3:35]) && isID(s[36:52])
}

func isHex(s string) bool {
	for _, b := range []byte(s) {
		if (b < '0' || b > '9') && (b < 'a' || b > 'f') {
			return false
		}
	}
	return true
}

func isID(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return isHex(s)
		}
	}
	return false
}

// recover ends a request whose handler panics, without ending the others.
func (s *Chain) recover(c *gin.Context) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares it by identity, too
			panic(cause)
		}
		s.Log.ErrorContext(c.Request.Context(), "handler panicked", slog.Any("err", cause), slog.String("stack", string(debug.Stack())))
		if !c.Writer.Written() {
			s.Reject(c, http.StatusInternalServerError, errs.New(errs.Internal, "the server failed"))
		}
		c.Abort()
	}()
	c.Next()
}

// limitSize limits the headers and the body. net/http has a higher limit for headers, and rejects them
// without a problem document.
func (s *Chain) limitSize(c *gin.Context) {
	if sizeOf(c.Request) > maxHeader {
		c.Header("Connection", "close")
		s.Fail(c, errs.New(errs.HeaderTooLarge, "the headers are larger than %d bytes", maxHeader))
		return
	}
	if len(c.Request.TransferEncoding) > 0 {
		// net/http drops a Content-Length next to Transfer-Encoding. A proxy may have used the
		// length and found another end of the body. Closing the connection prevents that the rest
		// is read as a second request (request smuggling).
		c.Header("Connection", "close")
	}
	if c.Request.ContentLength != 0 {
		most := s.mostOf(c)
		if c.Request.ContentLength > most {
			s.Fail(c, tooLarge(most))
			return
		}
		c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, most)
	}
	c.Next()
}

// mostOf returns the size limit of the body of the operation.
func (s *Chain) mostOf(c *gin.Context) int64 {
	if op := s.Operation(c.Request.Method, c.FullPath()); op != nil {
		return op.MaxBody
	}
	return request.MaxBody
}

// sizeOf returns the approximate size of the request line and the headers.
func sizeOf(r *http.Request) int {
	size := len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + len(": \r\n")
		}
	}
	return size
}

func tooLarge(most int64) error {
	return errs.New(errs.BodyTooLarge, "the body is larger than %d bytes", most)
}
