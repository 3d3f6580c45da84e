package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// Correlated adds the trace and the span of the context to each line of a handler: those of this process, or those that a
// client has sent.
func Correlated(lines slog.Handler) slog.Handler { return correlated{lines} }

type correlated struct{ slog.Handler }

func (c correlated) Handle(ctx context.Context, r slog.Record) error {
	if of := trace.SpanContextFromContext(ctx); of.IsValid() {
		r.AddAttrs(slog.String("trace_id", of.TraceID().String()), slog.String("span_id", of.SpanID().String()))
	}
	return c.Handler.Handle(ctx, r)
}

func (c correlated) WithAttrs(attrs []slog.Attr) slog.Handler {
	return correlated{c.Handler.WithAttrs(attrs)}
}

func (c correlated) WithGroup(name string) slog.Handler { return correlated{c.Handler.WithGroup(name)} }

// Library returns the logger of a library: warnings and errors with the name of the library, whose other keys are its own.
func Library(log *slog.Logger, name string) *slog.Logger {
	return slog.New(urgentOnly{log.Handler()}).With("library", name)
}

// urgentOnly is a handler without lines below warnings.
type urgentOnly struct{ slog.Handler }

func (u urgentOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && u.Handler.Enabled(ctx, level)
}

func (u urgentOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return urgentOnly{u.Handler.WithAttrs(attrs)}
}

func (u urgentOnly) WithGroup(name string) slog.Handler { return urgentOnly{u.Handler.WithGroup(name)} }
