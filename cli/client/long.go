package client

import (
	"context"
	"time"
)

// longTries outlast a restart of the server of half a minute.
const longTries = 6

// SendLong is Send for a request that transports a file: it may last any time, and has more tries. send makes the body again
// for each of them.
func SendLong[T any](ctx context.Context, c *Client, send Sender) (Response[T], error) {
	pause := firstPause
	for try := 1; ; try++ {
		got, hint, err := sendAtMost[T](ctx, c, send)
		if err == nil || try == longTries || hint < 0 {
			return got, err
		}
		if err := Sleep(ctx, min(max(pause, hint), time.Minute)); err != nil {
			return got, err
		}
		pause *= 3
	}
}
