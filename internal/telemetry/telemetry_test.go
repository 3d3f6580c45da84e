package telemetry_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel"

	"github.com/gpuaas/gpuaas/internal/telemetry"
)

// The collector is named in the environment, so these run one after the other.
func TestSpansReachTheCollector(t *testing.T) {
	got := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(body) > 0 {
			got <- r.URL.Path
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)

	end, err := telemetry.Start(t.Context(), telemetry.Service{Name: "gpuaas", Version: "test", Environment: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	_, span := otel.Tracer("test").Start(t.Context(), "a step")
	span.End()
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	if path := <-got; path != "/v1/traces" {
		t.Errorf("sent to %s", path)
	}
}

func TestNothingIsSentUnasked(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	end, err := telemetry.Start(t.Context(), telemetry.Service{})
	if err != nil || telemetry.Wanted() {
		t.Errorf("wanted %v: %v", telemetry.Wanted(), err)
	}
	if err := end(t.Context()); err != nil {
		t.Error(err)
	}
}
