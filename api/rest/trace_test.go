package rest_test

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// TestEveryAnswerIsTraced is CI-06: every response of the API, to any caller, has a span of the caller's trace and
// contains its correlation id.
func TestEveryAnswerIsTraced(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // without a receiver no spans are made
	spans := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() {
		otel.SetTracerProvider(noop.NewTracerProvider())
		otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator())
	})

	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // else the API makes no spans
	b := setup(t)
	answered := 0
	check := func(what string, a call) *httptest.ResponseRecorder {
		answered++
		spans.Reset()
		id, traceID := fmt.Sprintf("check-%d", answered), fmt.Sprintf("%032x", answered)
		a.header = map[string]string{"X-Correlation-ID": id, "traceparent": "00-" + traceID + "-b7ad6b7169203331-01", "Host": "localhost"}
		w := b.do(t, a)
		if got := w.Header().Get("X-Correlation-ID"); got != id {
			t.Errorf("%s: %d with correlation id %q", what, w.Code, got)
		}
		for _, s := range spans.Ended() {
			if s.SpanContext().TraceID().String() == traceID {
				return w
			}
		}
		t.Errorf("%s: %d without a span", what, w.Code)
		return w
	}

	for _, op := range openapi.Operations(b.doc) {
		// Most of these resources do not exist: any response will do.
		path, body := parameter.ReplaceAllString(op.Path, "01990f3e-0000-7000-8000-000000000001"), bodyOf(t, op)
		check(op.OperationID, call{method: op.Method, path: path, token: tokenFor(op), body: body})
		check(op.OperationID+", without a token", call{method: op.Method, path: path, body: body})
		check(op.OperationID+", wrongly", call{method: op.Method, path: path + "?nonsense=1", token: tokenFor(op), body: body})
	}
	for what, c := range map[string]struct {
		call
		status int
	}{
		"nothing there":  {call{method: "GET", path: "/api/v1/nowhere"}, 404},
		"another method": {call{method: "PUT", path: "/api/v1/allocations"}, 405},
		"nobody":         {call{method: "GET", path: "/api/v1/allocations"}, 401},
		"a page":         {call{method: "GET", path: "/api/docs"}, 200},
	} {
		if w := check(what, c.call); w.Code != c.status {
			t.Errorf("%s: answers %d", what, w.Code)
		}
	}
}
