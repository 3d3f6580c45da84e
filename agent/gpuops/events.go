package gpuops

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/nvml"
	"github.com/gpuaas/gpuaas/agent/health"
)

// restartEvents is the time between the end of the child that reads events and the start of the next one.
const restartEvents = 10 * time.Second

// followEvents stores the XIDs of the driver's event set. An XID that occurs while no child runs is only in
// the kernel log, and the state of its device in the next reading.
func (m *Machine) followEvents(ctx context.Context) {
	for ctx.Err() == nil {
		err := health.Follow(ctx, func(line []byte) {
			var e health.Event
			if err := json.Unmarshal(line, &e); err == nil {
				m.watch.DriverEvent(ctx, e)
			}
		}, m.Self, "probe", eventsProbe)
		m.Log.WarnContext(ctx, "the driver reports no events; trying again", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(restartEvents):
		}
	}
}

// printEvents prints each XID of the driver as one line, until the parent ends.
func printEvents(ctx context.Context, out func([]byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		cancel(errors.Join(errors.New("the agent has ended"), err))
	}()
	return nvml.Events(ctx, func(e health.Event) error {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		return out(append(text, '\n'))
	})
}
