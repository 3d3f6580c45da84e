package rest

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

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Names of headers as Go keeps them: these are set past Set, which would make
// them so again.
const (
	correlationHeader = "X-Correlation-Id"
	traceHeader       = "Traceparent"
)

// correlate gives the request its id, its security headers and its log line.
func (s *Server) correlate(c *gin.Context) {
	started := s.Clock.Now()
	s.Front.unwrap(c.Request)
	r := &call{Context: c.Request.Context(), url: c.Request.URL}
	r.correlation = correlationOf(first(c.Request.Header[correlationHeader]), started)
	r.request = *c.Request.WithContext(r)
	c.Request = &r.request

	h := c.Writer.Header()
	r.header(h, correlationHeader, atCorrelation, r.correlation)
	h["X-Content-Type-Options"] = nosniff
	h["Cache-Control"] = noStore
	h["Content-Security-Policy"] = showNothing
	h["Referrer-Policy"] = noReferrer
	if c.Request.TLS != nil {
		h["Strict-Transport-Security"] = hsts
	}
	if r.takeTrace(c.Request.Header[traceHeader]); r.traceparent != "" {
		r.header(h, traceHeader, atTrace, r.traceparent)
	}
	c.Next()
	s.log(c, r, s.Clock.Now().Sub(started).Microseconds())
}

// log writes the one line of the request.
func (s *Server) log(c *gin.Context, r *call, micros int64) {
	level := levelOf(c.Writer.Status(), r)
	if !s.Log.Enabled(r, level) {
		return
	}
	operation := "none"
	if r.op != nil {
		operation = r.op.id
	}
	s.Log.LogAttrs(r, level, "request",
		slog.String("correlation_id", r.correlation),
		slog.String("operation", operation),
		slog.String("method", c.Request.Method),
		slog.String("path", c.FullPath()),
		slog.Int("status", c.Writer.Status()),
		slog.Int64("duration_us", micros),
		known("rule", r.rule),
		known("actor", r.actor),
		known("tenant_id", r.tenant))
}

// known is nothing, which no handler writes, when there is nothing to say.
func known(key, value string) slog.Attr {
	if value == "" {
		return slog.Attr{}
	}
	return slog.String(key, value)
}

// name writes down who calls, once for all who ask.
func (r *call) name() {
	var room [96]byte
	kind, id := "user:", r.caller.User.UUID
	if r.caller.ServiceAccount != (ids.ServiceAccount{}) {
		kind, id = "service-account:", r.caller.ServiceAccount.UUID
	}
	text := appendID(append(room[:0], kind...), id)
	cut := len(text)
	if r.caller.Tenant != (ids.Tenant{}) {
		text = appendID(text, r.caller.Tenant.UUID)
	}
	all := string(text)
	r.actor, r.principal, r.tenant = all[:cut], all[len(kind):cut], all[cut:]
}

// Shared by all responses, so that they cost no allocation. Nobody appends to
// them: a handler that wants another value sets its own.
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

// levelOf keeps probes, which come every few seconds, out of the usual log.
func levelOf(status int, r *call) slog.Level {
	switch {
	case status >= http.StatusInternalServerError:
		return slog.LevelWarn
	case r.op != nil && r.op.public && !r.op.write:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// maxCorrelation keeps a foreign id from filling logs, events and audit rows.
const maxCorrelation = 64

// correlationOf takes the client's id when it is plain, else makes one.
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

// newCorrelation is a UUIDv7. The library's costs an allocation more.
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

// takeTrace remembers the trace that the request belongs to: that of our span,
// else, where no tracer runs, the client's own. What is malformed is not a trace.
func (r *call) takeTrace(sent []string) {
	if span := trace.SpanContextFromContext(r.Context); span.IsValid() {
		r.traceparent = fmt.Sprintf("00-%s-%s-%s", span.TraceID(), span.SpanID(), span.TraceFlags())
		return
	}
	if len(sent) == 1 && isTrace(sent[0]) {
		r.traceparent = sent[0][:traceLength]
	}
}

// traceLength is that of a version 00 traceparent: version, trace, parent, flags.
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

// recover keeps one broken request from ending the others.
func (s *Server) recover(c *gin.Context) {
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
			s.refuse(c, http.StatusInternalServerError, errs.New(errs.Internal, "the server failed"))
		}
		c.Abort()
	}()
	c.Next()
}

// limitSize bounds what a request can make us read. net/http would refuse large
// headers by itself, but not in our words; its own limit stands further out.
func (s *Server) limitSize(c *gin.Context) {
	if sizeOf(c.Request) > maxHeader {
		c.Header("Connection", "close")
		s.fail(c, errs.New(errs.HeaderTooLarge, "the headers are larger than %d bytes", maxHeader))
		return
	}
	if len(c.Request.TransferEncoding) > 0 {
		// A length beside it, which net/http drops unseen, means that somebody before
		// us may have seen the end of the body elsewhere. So nothing follows it.
		c.Header("Connection", "close")
	}
	if c.Request.ContentLength != 0 {
		most := s.mostOf(c)
		if c.Request.ContentLength > most {
			s.fail(c, tooLarge(most))
			return
		}
		c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, most)
	}
	c.Next()
}

// mostOf is how large a body may be here.
func (s *Server) mostOf(c *gin.Context) int64 {
	if op := s.operations[route{c.Request.Method, c.FullPath()}]; op != nil {
		return op.most
	}
	return maxBody
}

// sizeOf is about how many bytes the request's head took.
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
