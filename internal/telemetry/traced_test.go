package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/gpuaas/gpuaas/internal/telemetry"
)

func TestTracedCoversEveryResponse(t *testing.T) { //nolint:paralleltest // the process has one tracer
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })

	mux := http.NewServeMux()
	mux.HandleFunc("GET /beds/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /fire", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	door := telemetry.Traced("test", mux)

	const traceID = "0af7651916cd43dd8448eb211c80319c"
	for path, want := range map[string]struct{ name, status string }{
		"/beds/7":  {"GET /beds/{id}", "Unset"},
		"/fire":    {"GET /fire", "Error"},
		"/nowhere": {"GET", "Unset"},
	} {
		spans.Reset()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("traceparent", "00-"+traceID+"-b7ad6b7169203331-01")
		r.Header.Set(telemetry.CorrelationHeader, "mine")
		w := httptest.NewRecorder()
		door.ServeHTTP(w, r)
		if got := w.Header().Get(telemetry.CorrelationHeader); got != "mine" {
			t.Errorf("%s: correlation id %q", path, got)
		}
		ended := spans.Ended()
		if len(ended) != 1 {
			t.Fatalf("%s: %d spans", path, len(ended))
		}
		if s := ended[0]; s.SpanContext().TraceID().String() != traceID || s.Name() != want.name || s.Status().Code.String() != want.status {
			t.Errorf("%s: span %q of trace %s is %s", path, s.Name(), s.SpanContext().TraceID(), s.Status().Code)
		}
	}
}

func TestCorrelationOf(t *testing.T) {
	t.Parallel()
	for sent, accepted := range map[string]bool{"a-B_9.": true, "": false, "a space": false, "line\n": false, string(make([]byte, 65)): false} {
		if got := telemetry.CorrelationOf(sent); (got == sent) != accepted || got == "" {
			t.Errorf("%q becomes %q", sent, got)
		}
	}
}
