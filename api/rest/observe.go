package rest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/gpuaas/gpuaas/internal/errs"
)

const correlationHeader = "X-Correlation-ID"

// correlate gives the request its id, its security headers and its log line.
func (s *Server) correlate(c *gin.Context) {
	started := s.Clock.Now()
	r := &call{correlation: correlationOf(c.GetHeader(correlationHeader)), url: c.Request.URL}
	ctx := context.WithValue(c.Request.Context(), callKey{}, r)
	c.Request = c.Request.WithContext(ctx)

	h := c.Writer.Header()
	h[correlationCanonical] = []string{r.correlation}
	h["X-Content-Type-Options"] = nosniff
	h["Cache-Control"] = noStore
	if c.Request.TLS != nil {
		h["Strict-Transport-Security"] = hsts
	}
	c.Next()

	operation := "none"
	if r.op != nil {
		operation = r.op.id
	}
	s.Log.LogAttrs(ctx, levelOf(c.Writer.Status(), r), "request",
		slog.String("correlation_id", r.correlation),
		slog.String("operation", operation),
		slog.String("method", c.Request.Method),
		slog.String("path", c.FullPath()),
		slog.Int("status", c.Writer.Status()),
		slog.Int64("duration_us", s.Clock.Now().Sub(started).Microseconds()))
}

// Shared by all responses, so that they cost no allocation. Nobody appends to
// them: a handler that wants another value sets its own.
var (
	correlationCanonical = http.CanonicalHeaderKey(correlationHeader)
	nosniff              = []string{"nosniff"}
	noStore              = []string{"no-store"}
	hsts                 = []string{"max-age=31536000"}
)

// levelOf keeps probes, which come every few seconds, out of the usual log.
func levelOf(status int, r *call) slog.Level {
	switch {
	case status >= http.StatusInternalServerError:
		return slog.LevelWarn
	case r.op != nil && r.op.public:
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// maxCorrelation keeps a foreign id from filling logs, events and audit rows.
const maxCorrelation = 64

// correlationOf takes the client's id when it is plain, else makes one.
func correlationOf(asked string) string {
	if asked == "" || len(asked) > maxCorrelation {
		return uuid.Must(uuid.NewV7()).String()
	}
	for _, b := range []byte(asked) {
		plain := b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '-' || b == '_' || b == '.'
		if !plain {
			return uuid.Must(uuid.NewV7()).String()
		}
	}
	return asked
}

// traceOf is the traceparent that jobs and tasks carry on, or empty.
func traceOf(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", span.TraceID(), span.SpanID(), span.TraceFlags())
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
			s.refuse(c, http.StatusInternalServerError, errs.New(errs.Internal, "something went wrong on our side"))
		}
		c.Abort()
	}()
	c.Next()
}

// limitBody bounds what a request can make us read.
func (s *Server) limitBody(c *gin.Context) {
	if c.Request.ContentLength > maxBody {
		s.fail(c, tooLarge())
		return
	}
	if c.Request.ContentLength != 0 {
		c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, maxBody)
	}
	c.Next()
}

func tooLarge() error {
	return errs.New(errs.BodyTooLarge, "the body is larger than %d bytes", maxBody)
}
