package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/gpuaas/gpuaas/internal/telemetry"
)

func TestLinesNameTheirTrace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(telemetry.Correlated(slog.NewJSONHandler(&out, nil))).With("component", "x")
	of := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
	log.InfoContext(trace.ContextWithRemoteSpanContext(t.Context(), of), "in a request")
	log.InfoContext(context.WithoutCancel(t.Context()), "elsewhere")
	d := json.NewDecoder(&out)
	for _, want := range [][2]string{{of.TraceID().String(), of.SpanID().String()}, {}} {
		var line struct {
			Trace string `json:"trace_id"`
			Span  string `json:"span_id"`
			Of    string `json:"component"`
		}
		if err := d.Decode(&line); err != nil || line.Trace != want[0] || line.Span != want[1] || line.Of != "x" {
			t.Errorf("%+v, want %v: %v", line, want, err)
		}
	}
}

func TestLibrariesWriteWarningsOnly(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := telemetry.Library(slog.New(slog.NewJSONHandler(&out, nil)), "river")
	log.InfoContext(t.Context(), "counts", "jobs", 1)
	log.WarnContext(t.Context(), "a job is stuck", "jobs", 1)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["msg"] != "a job is stuck" || line["library"] != "river" {
		t.Errorf("%s: %v", out.Bytes(), err)
	}
}
