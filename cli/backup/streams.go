package backup

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/internal/secretref"
)

// streamsOf returns a function that reads the last sequences of the streams of NATS_URL, or nil where it is not set. They
// show after a restore what NATS has delivered since the backup.
func streamsOf(a *output.Console) (func(context.Context) (map[string]uint64, error), error) {
	address, err := secretref.FromEnv(a.Env, "NATS_URL")
	if err != nil || address == "" {
		return nil, err
	}
	return func(ctx context.Context) (map[string]uint64, error) {
		ctx, cancel := context.WithTimeout(ctx, streamsWithin)
		defer cancel()
		last, err := lastSequences(ctx, address)
		if err != nil {
			a.Notify("%s The manifest is without the positions of NATS: %v", output.SymbolWarn, err)
			return nil, nil //nolint:nilnil // PostgreSQL is the store of record
		}
		return last, nil
	}, nil
}

// streamsWithin limits the wait for NATS.
const streamsWithin = 5 * time.Second

func lastSequences(ctx context.Context, address string) (map[string]uint64, error) {
	conn, err := natsd.Dial(address, "gpuaas backup")
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	defer conn.Close()
	js, err := natsd.JetStream(conn)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	last, list := map[string]uint64{}, js.ListStreams(ctx)
	for info := range list.Info() {
		last[info.Config.Name] = info.State.LastSeq
	}
	return last, list.Err()
}
