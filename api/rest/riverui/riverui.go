// Package riverui serves the pages of the job queue. It does not authenticate: its caller must
// mount it behind a sign-in.
package riverui

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"riverqueue.com/riverui"
)

// New returns the pages below prefix. They query the client's database until ctx ends. Neither the pages
// nor their JSON contain the arguments of jobs, which can name people and objects of tenants.
func New(ctx context.Context, client *river.Client[pgx.Tx], prefix string, log *slog.Logger) (http.Handler, error) {
	handler, err := riverui.NewHandler(&riverui.HandlerOpts{
		Endpoints:                riverui.NewEndpoints(client, nil),
		JobListHideArgsByDefault: true,
		Logger:                   log,
		Prefix:                   prefix,
	})
	if err != nil {
		return nil, fmt.Errorf("building the job pages: %w", err)
	}
	// The handler needs its caches.
	if err := handler.Start(ctx); err != nil {
		return nil, fmt.Errorf("starting the job pages: %w", err)
	}
	return hideArguments(handler), nil
}
