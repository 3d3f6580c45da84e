package loop

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/product/terminal/relayrequest"
	"github.com/gpuaas/gpuaas/protocol"
)

// PollWakeUps returns the milliseconds from the insertion of a request for a stream to its arrival at an agent whose poll waits.
func PollWakeUps(ctx context.Context, l *lab.Lab, n int) ([]float64, error) {
	url, err := l.Database(ctx, "wakeups")
	if err != nil {
		return nil, err
	}
	h, err := newInstallation(ctx, l, url, 0)
	if err != nil {
		return nil, err
	}
	defer h.close(ctx)
	requests := relayrequest.Store{DB: h.owner}
	return stream(ctx, n, h.received, func(ctx context.Context, _ int) (string, time.Time, error) {
		id, began := ids.New[ids.Task](), clock.Clock{}.Now()
		signed := protocol.Signed{Kid: "bench", Body: []byte(id.String()), Signature: make([]byte, 64)}
		err := requests.Insert(ctx, relayrequest.Request{Stream: id, Node: onlyNode(), Expires: began.Add(protocol.RelayWithin), Signed: signed})
		h.hints.Send(nodetask.Topic(onlyNode()))
		return id.String(), began, err
	})
}
