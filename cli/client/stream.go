package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// Kinds of items of the stream that are no events.
const (
	KindNotification = "notification"
	KindUnread       = "unread"
)

// Event is one event of the stream: its envelope, and the bytes of it.
type Event struct {
	ID            string          `json:"event_id"`
	Type          string          `json:"event_type"`
	At            time.Time       `json:"occurred_at"`
	CorrelationID string          `json:"correlation_id"`
	Payload       json.RawMessage `json:"payload"`
	Raw           json.RawMessage
}

// streamSilence exceeds the 15 s between heartbeats. A longer silence means that the connection is
// lost.
const streamSilence = 40 * time.Second

// Stream reads the events of one connection until it ends, or until each returns an error.
// opened is called once the server has answered.
func (c *Client) Stream(ctx context.Context, params oapi.ListEventsParams, opened func(), each func(Event) error) error {
	return c.StreamItems(ctx, params, opened, func(one Event) error {
		if one.Type == KindNotification || one.Type == KindUnread {
			return nil
		}
		return each(one)
	})
}

// StreamItems is Stream with the items that are no events. The type of such an item is its kind, and it has no id.
func (c *Client) StreamItems(ctx context.Context, params oapi.ListEventsParams, opened func(), each func(Event) error) error {
	return c.StreamFrom(ctx, func(ctx context.Context) (*http.Response, error) { return c.ListEvents(ctx, &params) }, opened, each)
}

// StreamFrom reads the server-sent events of one response until it ends, or until each returns an error.
func (c *Client) StreamFrom(ctx context.Context, open func(context.Context) (*http.Response, error), opened func(), each func(Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := open(ctx)
	if hasCode(err) {
		return err
	}
	if err != nil {
		return c.Unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, BodyLimit))
		return c.Problem(resp, body)
	}
	opened()
	silent := time.AfterFunc(streamSilence, cancel)
	defer silent.Stop()
	return ReadStream(resp.Body, func() { silent.Reset(streamSilence) }, each)
}

// ReadStream parses server-sent events. It calls heard for every line, also for the comments that
// are only heartbeats.
func ReadStream(body io.Reader, heard func(), each func(Event) error) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20) // an event's payload is far below the API's body limit
	var id, kind string
	var data []string
	for lines.Scan() {
		heard()
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case lines.Text() == "" && len(data) > 0:
			f := Event{Raw: json.RawMessage(strings.Join(data, "\n"))}
			if err := json.Unmarshal(f.Raw, &f); err != nil {
				return fmt.Errorf("reading event %s: %w", id, err)
			}
			if id != "" {
				f.ID = id
			}
			if f.Type == "" {
				f.Type = kind
			}
			kind, data = "", nil
			if err := each(f); err != nil {
				return err
			}
		case field == "id":
			id = value
		case field == "event":
			kind = value
		case field == "data":
			data = append(data, value)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	return io.EOF
}

// WakeUp sends to notify after every event until ctx ends. An event is a hint: the next poll finds what it
// misses.
func (c *Client) WakeUp(ctx context.Context, notify chan<- struct{}) {
	poke := func() {
		select {
		case notify <- struct{}{}:
		default: // already poked
		}
	}
	for ctx.Err() == nil {
		// What happened before the connection stood is found by looking once now.
		_ = c.Stream(ctx, oapi.ListEventsParams{}, poke, func(Event) error { poke(); return nil })
		if Sleep(ctx, 2*time.Second) != nil {
			return
		}
	}
}
