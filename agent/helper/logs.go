package helper

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent/logs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// LogHost reads the logs of the host OS.
type LogHost interface {
	// Logs calls each with the lines of a scope, oldest first. With Follow it goes on until ctx ends. For an account it returns
	// nothing that names another one.
	Logs(ctx context.Context, s logs.Scope, each func(logs.Line)) error
}

// LogBatch contains the next items of a stream of kind logs. Over means that none follows.
type LogBatch struct {
	Items  []protocol.LogItem `json:"items,omitempty"`
	Over   bool               `json:"over,omitempty"`
	Reason string             `json:"reason,omitempty"` // of the end; empty for the end of the lines
}

// End returns the text of the end of a stream.
func (b LogBatch) End() string {
	if b.Reason == "" {
		return "complete"
	}
	return b.Reason
}

const (
	// maxLogs limits the open logs of a node, and maxLogsOfOne those of one allocation, which leaves the others some.
	maxLogs      = 128
	maxLogsOfOne = 16
	// unreadFor is the time after which a log without a reader ends: the network process was started again.
	unreadFor = 30 * time.Second
)

// openLogs are the streams of kind logs that this process reads.
type openLogs struct {
	mu      sync.Mutex
	base    context.Context //nolint:containedctx // of the process: a log outlives the call that opens it
	open    map[ids.Task]*openLog
	running sync.WaitGroup
}

type openLog struct {
	allocation ids.Allocation // zero for a log of the node
	feed       *logs.Feed
	end        context.CancelFunc
}

func (o *openLogs) start(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.base, o.open = ctx, map[ids.Task]*openLog{}
}

// endUnread ends the logs without a reader.
func (o *openLogs) endUnread(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, one := range o.open {
		if now.Sub(one.feed.LastRead()) >= unreadFor {
			one.end()
			delete(o.open, id)
		}
	}
}

// watch ends logs without a reader until ctx ends.
func (o *openLogs) watch(ctx context.Context, now func() time.Time) {
	tick := time.NewTicker(unreadFor / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.endUnread(now())
		}
	}
}

// add begins a log of an allocation or, with a zero one, of the node.
func (o *openLogs) add(id ids.Task, of ids.Allocation, now time.Time, read func(context.Context, *logs.Feed) error) error {
	o.endUnread(now)
	o.mu.Lock()
	defer o.mu.Unlock()
	same := 0
	for _, one := range o.open {
		if one.allocation == of {
			same++
		}
	}
	switch {
	case o.base == nil || o.base.Err() != nil:
		return errors.New("this node is stopping")
	case len(o.open) >= maxLogs:
		return protocol.Reject(protocol.SlotBusy, "this node has %d open logs already", len(o.open))
	case same >= maxLogsOfOne:
		return protocol.Reject(protocol.SlotBusy, "%d logs of the same allocation or of this node are open already", same)
	}
	ctx, end := context.WithCancel(o.base)
	one := &openLog{allocation: of, feed: logs.NewFeed(now), end: end}
	o.open[id] = one
	o.running.Go(func() {
		defer end()
		reason := ""
		if err := read(ctx, one.feed); err != nil {
			reason = err.Error()
		}
		one.feed.End(reason)
	})
	return nil
}

func (o *openLogs) get(id ids.Task, end bool) (*openLog, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one := o.open[id]
	if one == nil {
		return nil, errors.New("no such log is open")
	}
	if end {
		one.end()
		delete(o.open, id)
	}
	return one, nil
}

// ReadLog returns the next items of a log that Stream has opened. It does not wait for any. With end it ends the log.
func (l *Local) ReadLog(_ context.Context, stream ids.Task, end bool) (b LogBatch, err error) {
	one, err := l.logs.get(stream, end)
	if err != nil || end {
		return b, err
	}
	b.Items, b.Over, b.Reason = one.feed.Next(l.Clock.Now())
	return b, nil
}

// openLog begins to read a log of a verified request.
func (l *Local) openLog(e protocol.Envelope, q protocol.LogQuery) error {
	sources, scope, err := l.sources(e, q.Source)
	if err != nil {
		return err
	}
	return l.logs.add(e.Task, e.Allocation, l.Clock.Now(), func(ctx context.Context, f *logs.Feed) error { return logs.Run(ctx, q, scope, f, sources...) })
}

// sources returns what a log reads. A log of an allocation begins with its provisioning, and needs an allocation that is active at
// the fence. The log of its own tasks needs an allocation that this node knows.
func (l *Local) sources(e protocol.Envelope, source protocol.LogSource) (all []logs.Source, s logs.Scope, err error) {
	host, ok := l.Host.(LogHost)
	if !ok {
		return nil, s, errors.New("this node has no logs")
	}
	s.Source = source
	switch {
	case e.Allocation == ids.Allocation{}:
		return []logs.Source{host.Logs}, s, nil
	case source == protocol.LogAgent:
		_, err := l.runner.History(e.Allocation, e.Fence)
		return []logs.Source{l.ofTasks(e.Allocation)}, s, err
	}
	params, err := l.runner.Active(e.Allocation, e.Fence)
	if err != nil {
		return nil, s, err
	}
	s.User, s.UID, s.Since = params.User, params.UID, l.runner.Since(e.Allocation)
	all = []logs.Source{l.whileActive(e, host.Logs)}
	if source == protocol.LogKernel {
		all = append(all, l.faults.source(params.GPUs))
	}
	return all, s, nil
}

// pollEvery is the time between two reads of a source without events.
const pollEvery = 500 * time.Millisecond

// whileActive ends a log with its allocation. The server ends it, too.
func (l *Local) whileActive(e protocol.Envelope, source logs.Source) logs.Source {
	return func(ctx context.Context, s logs.Scope, each func(logs.Line)) error {
		if !s.Follow {
			return source(ctx, s, each)
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var watching sync.WaitGroup
		defer watching.Wait()
		watching.Go(func() {
			for pause(ctx) {
				if _, err := l.runner.Active(e.Allocation, e.Fence); err != nil {
					cancel(err)
				}
			}
		})
		err := source(ctx, s, each)
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return err
	}
}

func pause(ctx context.Context) bool { return sleep(ctx, pollEvery) }
