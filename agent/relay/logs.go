package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/protocol"
)

// logEvery is the time between two reads of a log that has no new lines.
const logEvery = 200 * time.Millisecond

// serveLog sends the lines of a log, one JSON object a line, until the log or the server ends.
func (r *Relay) serveLog(ctx, opening context.Context, s helper.Stream) error {
	if s.Reason == "" {
		defer func() {
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), loginWithin)
			defer cancel()
			_, _ = r.ReadLog(ending, s.ID, true) // otherwise the helper ends it after a time without a reader
		}()
	}
	server, err := r.connect(opening, s)
	if err != nil || s.Reason != "" {
		return errors.Join(err, rejected(s))
	}
	defer r.close(server.raw)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { r.close(server.raw) })()
	go func() {
		_, _ = io.Copy(io.Discard, server) // the server sends nothing but its end
		cancel()
	}()
	for {
		batch, err := r.ReadLog(ctx, s.ID, false)
		if err != nil {
			return errors.Join(err, send(server, protocol.LogItem{End: "the log ended on the node"}))
		}
		if err := send(server, batch.Items...); err != nil {
			return nil // the server has enough
		}
		if batch.Over {
			return send(server, protocol.LogItem{End: batch.End()})
		}
		if len(batch.Items) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logEvery):
		}
	}
}

func send(to io.Writer, items ...protocol.LogItem) error {
	var lines []byte
	for _, item := range items {
		line, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("encoding a line of a log: %w", err)
		}
		lines = append(append(lines, line...), '\n')
	}
	if len(lines) == 0 {
		return nil
	}
	_, err := to.Write(lines)
	return err
}
