// Package logs reads lines of logs of a node within limits. It decides what a stream sends: the last lines before it, those after
// it, and the number of lines that its reader was too slow for. The host OS provides the lines.
package logs

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// Line is a line of a log.
type Line struct {
	At   time.Time
	Text string
}

// Scope selects the lines of a stream. Without an account it is a log of the node.
type Scope struct {
	Source protocol.LogSource
	User   string
	UID    int
	// Since is the least time of a line. For an allocation it is never before its provisioning: the account may have had another
	// tenant.
	Since time.Time
	// Tail is a hint for the number of lines before the stream begins.
	Tail   int
	Follow bool
}

// Source calls each with the lines of a scope, oldest first. With Follow it goes on until ctx ends.
type Source func(ctx context.Context, s Scope, each func(Line)) error

// maxPast limits the memory of the lines that a stream begins with.
const maxPast = 8 << 20

// past contains the last lines before a stream begins.
type past struct {
	lines []Line
	size  int
	lost  int
	most  int
}

func (p *past) add(l Line) {
	p.lines, p.size = append(p.lines, l), p.size+len(l.Text)
	for len(p.lines) > 0 && (len(p.lines) > p.most || p.size > maxPast) {
		p.size -= len(p.lines[0].Text)
		p.lines, p.lost = p.lines[1:], p.lost+1
	}
}

// Run sends the lines of all sources to the feed until they end or ctx ends.
func Run(ctx context.Context, q protocol.LogQuery, s Scope, feed *Feed, sources ...Source) error {
	r := &run{query: q, scope: s, feed: feed, ends: make([]position, len(sources))}
	if at := time.UnixMicro(q.Since); q.Since > 0 && at.After(s.Since) {
		r.scope.Since = at
	}
	if err := r.begin(ctx, sources); err != nil || !q.Follow {
		return err
	}
	return r.readNew(ctx, sources)
}

// run is one stream.
type run struct {
	query protocol.LogQuery
	scope Scope
	feed  *Feed
	ends  []position // of each source

	mu   sync.Mutex
	last position // of the stream
}

// position is the time of a line, and how many lines of that time there were.
type position struct {
	at    int64
	count int
}

func (p *position) pass(at int64) int {
	if at != p.at {
		*p = position{at: at}
	}
	p.count++
	return p.count
}

// begin sends the lines before the stream begins, in the sequence of their times.
func (r *run) begin(ctx context.Context, sources []Source) error {
	before, scope := past{most: r.most()}, r.scope
	scope.Follow, scope.Tail = false, before.most
	for i, source := range sources {
		own := past{most: before.most}
		if err := source(ctx, scope, func(l Line) { r.ends[i].pass(l.At.UnixMicro()); own.add(l) }); err != nil {
			return err
		}
		before.lines, before.lost = append(before.lines, own.lines...), before.lost+own.lost
	}
	slices.SortStableFunc(before.lines, func(a, b Line) int { return a.At.Compare(b.At) })
	var items []protocol.LogItem
	for _, l := range before.lines {
		if item := r.item(l); !r.isSent(item) {
			items = append(items, item)
		}
	}
	before.lost = max(0, before.lost-r.query.Skip) // the client has the oldest
	if over := len(items) - r.query.Tail; over > 0 {
		items, before.lost = items[over:], before.lost+over
	}
	if r.query.Skip > 0 && before.lost > 0 { // a client that resumes must know that there is a gap
		items = append([]protocol.LogItem{{Dropped: before.lost}}, items...)
	}
	for _, item := range items {
		if err := r.feed.Add(ctx, item, true); err != nil {
			return err
		}
	}
	return nil
}

// most is the number of lines to read. Those that the client has already are read again.
func (r *run) most() int { return r.query.Tail + r.query.Skip }

func (r *run) isSent(i protocol.LogItem) bool {
	return i.At < r.query.Since || i.At == r.query.Since && i.Number <= r.query.Skip
}

// item numbers a line. A line that arrives late has the time of the last one, so that cursors only rise.
func (r *run) item(l Line) protocol.LogItem {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := max(l.At.UnixMicro(), r.last.at)
	return protocol.LogItem{At: at, Number: r.last.pass(at), Text: protocol.CleanLine(l.Text)}
}

// readNew sends each new line. A source that ends with an error ends the stream.
func (r *run) readNew(ctx context.Context, sources []Source) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i, source := range sources {
		all.Go(func() {
			if err := source(ctx, r.after(i), r.fresh(ctx, i)); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// after is the scope of the lines that follow those of begin.
func (r *run) after(i int) Scope {
	s := r.scope
	s.Follow = true
	if at := time.UnixMicro(r.ends[i].at); r.ends[i].at > 0 && at.After(s.Since) {
		s.Since = at
	}
	return s
}

// fresh returns a function that sends the lines of a source which begin has not read.
func (r *run) fresh(ctx context.Context, i int) func(Line) {
	end, seen := r.ends[i], 0
	return func(l Line) {
		at := l.At.UnixMicro()
		if at == end.at {
			seen++
		}
		if at < end.at || at == end.at && seen <= end.count {
			return
		}
		_ = r.feed.Add(ctx, r.item(l), false) // does not wait
	}
}
