package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Client calls the helper over its socket. It has one connection and dials again when that ends. A call
// without a connection fails at once.
type Client struct {
	Path  string
	UID   int // of the helper: root
	Notes Notes
	Log   *slog.Logger
	// Met is called after each connection was made, before the notes.
	Met func(context.Context, Hello)

	mu      sync.Mutex
	link    *link
	next    uint64
	working sync.WaitGroup
}

// link is one connection.
type link struct {
	conn    *net.UnixConn
	sending sync.Mutex
	hello   Hello
	waiting map[uint64]chan message // guarded by Client.mu
	gone    chan struct{}
}

// ErrAway means that the helper is not reachable.
var ErrAway = errors.New("the helper is not reached: see systemctl status gpuaas-agent-helper")

const (
	// answerWithin includes the time in which the helper reads the host OS.
	answerWithin = inspectTimeout + 5*time.Second
	firstDelay   = 100 * time.Millisecond
	maxDelay     = 5 * time.Second
)

// Run maintains the connection until ctx ends.
func (c *Client) Run(ctx context.Context) {
	delay := firstDelay
	for ctx.Err() == nil {
		l, err := c.dial(ctx)
		if err == nil {
			delay = firstDelay
			c.Log.InfoContext(ctx, "helper reached", "version", l.hello.Version, "node", l.hello.Node, "journal", l.hello.Journal)
			c.attend(ctx, l)
			continue
		}
		c.Log.WarnContext(ctx, "helper not reached", "err", err, "again_in", delay)
		if !sleep(ctx, delay) {
			break
		}
		delay = min(2*delay, maxDelay)
	}
	c.working.Wait()
}

// dial connects to the helper and introduces the network process.
func (c *Client) dial(ctx context.Context) (*link, error) {
	d := net.Dialer{Timeout: frameWithin}
	conn, err := d.DialContext(ctx, "unix", c.Path)
	if err != nil {
		return nil, fmt.Errorf("calling the helper: %w", err)
	}
	unix, _ := conn.(*net.UnixConn) // it is one by its network
	l := &link{conn: unix, waiting: map[uint64]chan message{}, gone: make(chan struct{})}
	if err := c.greet(l); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return l, nil
}

// greet checks that the kernel names the expected user as the owner of the socket. Another process of the node could
// otherwise bind the path first and receive the tasks.
func (c *Client) greet(l *link) error {
	uid, err := peerOf(l.conn)
	if err != nil {
		return err
	}
	if uid != c.UID {
		return fmt.Errorf("the helper's socket belongs to uid %d, not to %d", uid, c.UID)
	}
	if err := writeFrame(l.conn, request{Call: callHello, Protocol: Protocol}, maxRequest); err != nil {
		return err
	}
	m, err := readMessage(l.conn, frameWithin)
	switch {
	case err != nil:
		return fmt.Errorf("the helper did not respond; another process may be connected: %w", err)
	case m.Hello == nil:
		return errors.New("the helper did not introduce itself")
	}
	l.hello = *m.Hello
	return nil
}

func readMessage(conn net.Conn, first time.Duration) (m message, err error) {
	text, err := readFrame(conn, maxReply, first)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("not a valid response: %w", err)
	}
	return m, nil
}

// attend reads the messages of the helper until the connection ends.
func (c *Client) attend(ctx context.Context, l *link) {
	c.mu.Lock()
	c.link = l
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	defer stop()
	c.working.Go(func() {
		if c.Met != nil {
			c.Met(ctx, l.hello)
		}
		// Results and changes from the time without a connection.
		c.Notes.Finished()
		c.Notes.Changed()
		if c.Notes.Keys != nil {
			c.Notes.Keys()
		}
	})
	for {
		m, err := readMessage(l.conn, 0)
		if err != nil {
			c.disconnect(l)
			if ctx.Err() == nil {
				c.Log.WarnContext(ctx, "helper disconnected", "err", err)
			}
			return
		}
		c.hear(ctx, l, m)
	}
}

func (c *Client) disconnect(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = l.conn.Close()
	close(l.gone)
	c.link = nil
}

// hear delivers one message. A message without an event answers a call; all others are notifications.
func (c *Client) hear(ctx context.Context, l *link, m message) {
	switch m.Event {
	case "":
		c.mu.Lock()
		waiting := l.waiting[m.ID]
		delete(l.waiting, m.ID)
		c.mu.Unlock()
		if waiting != nil {
			waiting <- m // buffered: the caller may have gone
		}
	case eventChanged:
		c.Notes.Changed()
	case eventFinished:
		c.Notes.Finished()
	case eventKeys:
		if c.Notes.Keys != nil {
			c.Notes.Keys()
		}
	case eventProgress:
		if m.Progress != nil {
			c.Notes.Progress(m.Task, *m.Progress)
		}
	case eventProbe:
		if m.Result != nil {
			c.working.Go(func() { c.Notes.Probe(ctx, m.Result) }) // it requests a report
		}
	}
}

// call waits for the answer to r.
func (c *Client) call(ctx context.Context, r request) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	c.mu.Lock()
	l := c.link
	if l == nil {
		c.mu.Unlock()
		return message{}, ErrAway
	}
	c.next++
	r.ID = c.next
	answer := make(chan message, 1)
	l.waiting[r.ID] = answer
	c.mu.Unlock()

	l.sending.Lock()
	err := writeFrame(l.conn, r, maxRequest)
	l.sending.Unlock()
	if err != nil {
		_ = l.conn.Close() // half a frame may be out: it cannot be used any more
		return message{}, errors.Join(ErrAway, err)
	}
	select {
	case m := <-answer:
		if m.Failure != "" {
			return m, failure(m.Code, m.Failure)
		}
		return m, nil
	case <-l.gone:
		return message{}, ErrAway
	case <-ctx.Done():
		c.mu.Lock()
		delete(l.waiting, r.ID)
		c.mu.Unlock()
		return message{}, fmt.Errorf("the helper did not respond to %s: %w", r.Call, ctx.Err())
	}
}

// Hello returns how the connected helper introduced itself. ok is false without a connection.
func (c *Client) Hello() (h Hello, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return h, false
	}
	return c.link.hello, true
}

// Receive passes a task on unchanged.
func (c *Client) Receive(ctx context.Context, s protocol.Signed) (runner.Answer, error) {
	m, err := c.call(ctx, request{Call: callReceive, Signed: &s})
	if err != nil || m.Answer == nil {
		return runner.Answer{}, errors.Join(err, missing(m.Answer == nil))
	}
	return m.Answer.unpacked(), nil
}

// Inspect reads the whole node.
func (c *Client) Inspect(ctx context.Context) (protocol.Report, error) {
	m, err := c.call(ctx, request{Call: callInspect})
	if err != nil || m.Report == nil {
		return protocol.Report{}, errors.Join(err, missing(m.Report == nil))
	}
	return *m.Report, nil
}

// PendingResults lists the results that the control plane has not accepted yet.
func (c *Client) PendingResults(ctx context.Context) ([]*protocol.Result, error) {
	m, err := c.call(ctx, request{Call: callPendingResults})
	return m.Results, err
}

// AckResult records that the control plane has the result of a task, or does not need it.
func (c *Client) AckResult(ctx context.Context, id ids.Allocation, task ids.Task) error {
	_, err := c.call(ctx, request{Call: callAckResult, Allocation: id, Task: task})
	return err
}

// UpdateTrust hands over the last sets of the control plane's keys.
func (c *Client) UpdateTrust(ctx context.Context, sets []protocol.Signed) error {
	_, err := c.call(ctx, request{Call: callUpdateTrust, Sets: sets})
	return err
}

// UpdateReleaseKeys hands over the last sets of the keys that sign builds of the agent.
func (c *Client) UpdateReleaseKeys(ctx context.Context, sets []protocol.Signed) error {
	_, err := c.call(ctx, request{Call: callUpdateReleases, Sets: sets})
	return err
}

// HandleAck passes on the response to the last report.
func (c *Client) HandleAck(ctx context.Context, ack ReportAck) error {
	_, err := c.call(ctx, request{Call: callHeard, Ack: ack})
	return err
}

// Stream verifies a request for a stream, and returns where the stream leads.
func (c *Client) Stream(ctx context.Context, s protocol.Signed) (Stream, error) {
	m, err := c.call(ctx, request{Call: callStream, Signed: &s})
	if err != nil || m.Stream == nil {
		return Stream{}, errors.Join(err, missing(m.Stream == nil))
	}
	return *m.Stream, nil
}

// ReadLog returns the next lines of a stream of kind logs. With end it ends the stream.
func (c *Client) ReadLog(ctx context.Context, stream ids.Task, end bool) (LogBatch, error) {
	m, err := c.call(ctx, request{Call: callReadLog, Task: stream, End: end})
	if err != nil || m.Log == nil {
		return LogBatch{}, errors.Join(err, missing(m.Log == nil))
	}
	return *m.Log, nil
}

// KeyWants lists the allocations that need access keys.
func (c *Client) KeyWants(ctx context.Context) ([]KeyWant, error) {
	m, err := c.call(ctx, request{Call: callKeyWants})
	return m.Wants, err
}

// GrantKeys passes access keys on.
func (c *Client) GrantKeys(ctx context.Context, g KeyGrant) error {
	_, err := c.call(ctx, request{Call: callGrantKeys, Grant: &g})
	return err
}

// Plan returns the steps that the helper would execute now.
func (c *Client) Plan(ctx context.Context) ([]runner.Plan, error) {
	m, err := c.call(ctx, request{Call: callPlan})
	return m.Plans, err
}

func missing(is bool) error {
	if is {
		return errors.New("the response of the helper is empty")
	}
	return nil
}
