// Package telemetry sends traces to a collector where one is named, and costs
// nothing where none is. The standard OTEL_* variables configure it.
package telemetry

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// Service names who sends.
type Service struct {
	Name, Version, Environment string
}

// Wanted reports whether the environment names a collector.
func Wanted() bool {
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// On reports whether this process creates spans.
func On() bool {
	_, made := otel.GetTracerProvider().(*trace.TracerProvider)
	return made
}

// Start propagates trace contexts and exports spans if a collector is configured. The returned
// function flushes the last spans and returns an error if they were lost. An unavailable collector
// loses spans and delays no request.
func Start(ctx context.Context, s Service) (end func(context.Context) error, err error) {
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	if !Wanted() {
		return func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening the trace exporter: %w", err)
	}
	from, err := resource.Merge(resource.Default(), resource.NewSchemaless(
		attribute.String("service.name", s.Name), attribute.String("service.version", s.Version),
		attribute.String("deployment.environment.name", s.Environment)))
	if err != nil {
		return nil, fmt.Errorf("naming the sender of traces: %w", err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(from))
	otel.SetTracerProvider(provider)
	return provider.Shutdown, nil
}
