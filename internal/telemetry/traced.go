package telemetry

import (
	"net/http"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// CorrelationHeader carries the id that a request is found by.
const CorrelationHeader = "X-Correlation-ID"

// Traced gives every request of a router a span, as a child of the client's span if there is one, and
// a correlation id, which the response contains. It wraps a mux, whose pattern becomes the span's
// name.
func Traced(name string, routes http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(CorrelationHeader, CorrelationOf(r.Header.Get(CorrelationHeader)))
		ctx := otel.GetTextMapPropagator().Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := otel.Tracer(name).Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		if !span.IsRecording() { // no collector
			routes.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		r = r.WithContext(ctx)
		answer := &answered{ResponseWriter: w, status: http.StatusOK}
		routes.ServeHTTP(answer, r)
		if r.Pattern != "" {
			span.SetName(r.Pattern)
		}
		span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.String("http.route", r.Pattern),
			attribute.Int("http.response.status_code", answer.status))
		if answer.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

// answered stores the status of the response.
type answered struct {
	http.ResponseWriter

	status int
}

func (a *answered) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap lets deadlines through.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// maxCorrelation prevents a client's id from filling logs, events and audit rows.
const maxCorrelation = 64

// CorrelationOf returns the client's id if it is plain, and a new one otherwise.
func CorrelationOf(asked string) string {
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
