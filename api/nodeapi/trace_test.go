package nodeapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"
)

// TestEveryAnswerIsTraced is CI-06, of the node API: also what it rejects.
func TestEveryAnswerIsTraced(t *testing.T) { //nolint:paralleltest // the process has one tracer
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() {
		otel.SetTracerProvider(noop.NewTracerProvider())
		otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator())
	})

	s := &Server{Log: slog.New(slog.DiscardHandler)}
	door := s.Handler()
	patterns := []string{"GET /nowhere"}
	for pattern := range s.routes() {
		patterns = append(patterns, pattern)
	}
	const traceID = "0af7651916cd43dd8448eb211c80319c"
	for _, pattern := range patterns {
		spans.Reset()
		method, path, _ := strings.Cut(pattern, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("no JSON"))
		r.Header.Set("traceparent", "00-"+traceID+"-b7ad6b7169203331-01")
		r.Header.Set("X-Correlation-ID", "mine")
		w := httptest.NewRecorder()
		door.ServeHTTP(w, r)
		if w.Code < http.StatusBadRequest || w.Header().Get("X-Correlation-ID") != "mine" || !strings.Contains(w.Body.String(), `"correlation_id":"mine"`) {
			t.Errorf("%s: %d with correlation id %q: %s", pattern, w.Code, w.Header().Get("X-Correlation-ID"), w.Body)
		}
		if ended := spans.Ended(); len(ended) != 1 || ended[0].SpanContext().TraceID().String() != traceID {
			t.Errorf("%s: %d without a span of the caller's trace", pattern, w.Code)
		}
	}
}
