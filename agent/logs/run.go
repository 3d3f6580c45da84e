package logs

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// Run sends the lines of all sources, of which there are one or two, to the feed until they end or ctx ends.
func Run(ctx context.Context, q protocol.LogQuery, s Scope, feed *Feed, sources ...Source) error {
	r := &run{query: q, scope: s, feed: feed}
	for i := range sources {
		r.last = append(r.last, r.start(i))
	}
	r.ends = slices.Clone(r.last)
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
	ends  []position // of the lines that begin has read, of each source

	mu   sync.Mutex
	last []position // that was sent, of each source
}

// position is a position in a source: the time of a line, and how many lines of that time there were. A late line has the time of
// the line before it. So the positions rise in the sequence of the source, whatever the clock does. The sequence and the positions
// are the same when the source is read again from the first line that is not older than a position.
type position = protocol.LogPosition

// pass moves the position to the next line.
func pass(p *position, at int64) position {
	if at > p.At {
		*p = position{At: at}
	}
	p.Number++
	return *p
}

// overlap is the time before a position at which a source is read again. A later line can be older: by less than the clock of a
// node is set back while it runs.
const overlap = time.Minute

// start is the position after which a stream sends the lines of a source.
func (r *run) start(i int) position {
	p := position{At: r.query.Since, Number: r.query.Skip}
	if i > 0 {
		if p.Number = 0; r.query.Second != (position{}) {
			p = r.query.Second
		}
	}
	if first := r.scope.Since.UnixMicro(); p.At < first {
		p = position{At: first}
	}
	return p
}

// from is a scope of the lines from a position on. The function reports which lines of a source are that, in their sequence.
func (r *run) from(p position) (Scope, func(at int64) bool) {
	s := r.scope
	if at := time.UnixMicro(p.At).Add(-overlap); p.At > 0 && at.After(s.Since) {
		s.Since = at
	}
	begun := false
	return s, func(at int64) bool {
		begun = begun || at >= p.At
		return begun
	}
}

// numbered is a line of a source with its position.
type numbered struct {
	Line

	source int
	at     position
}

// begin sends the lines before the stream begins, in the sequence of their times.
func (r *run) begin(ctx context.Context, sources []Source) error {
	var lines []numbered
	lost := 0
	for i, source := range sources {
		before, err := r.before(ctx, i, source)
		if err != nil {
			return err
		}
		lines, lost = append(lines, before.lines...), lost+before.lost
	}
	slices.SortStableFunc(lines, func(a, b numbered) int { return cmp.Compare(a.at.At, b.at.At) })
	var items []protocol.LogItem
	for _, l := range lines {
		items = append(items, r.item(l))
	}
	if over := len(items) - r.query.Tail; over > 0 {
		items, lost = items[over:], lost+over
	}
	if r.resumes() && lost > 0 { // the client must know that there is a gap
		items = append([]protocol.LogItem{{Dropped: lost}}, items...)
	}
	for _, item := range items {
		if err := r.feed.Add(ctx, item, true); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) resumes() bool { return r.query.Skip+r.query.Second.Number > 0 }

// before reads the last lines of a source that the client does not have.
func (r *run) before(ctx context.Context, i int, source Source) (past, error) {
	own, start := past{most: r.query.Tail}, r.last[i]
	scope, follows := r.from(start)
	// Those that the client has are read again.
	scope.Follow, scope.Tail = false, r.query.Tail+start.Number
	p := &r.ends[i]
	p.Number = 0
	err := source(ctx, scope, func(l Line) {
		if at := l.At.UnixMicro(); follows(at) {
			if at := pass(p, at); at.At > start.At || at.Number > start.Number {
				own.add(numbered{l, i, at})
			}
		}
	})
	return own, err
}

// item returns a line as the next one of the stream.
func (r *run) item(l numbered) protocol.LogItem {
	r.last[l.source] = l.at
	item := protocol.LogItem{At: l.at.At, Number: l.at.Number, Second: l.source > 0, Text: protocol.CleanLine(l.Text)}
	if len(r.last) > 1 {
		item.Other = r.last[1-l.source]
	}
	return item
}

// readNew sends each new line. A source that ends with an error ends the stream.
func (r *run) readNew(ctx context.Context, sources []Source) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i, source := range sources {
		all.Go(func() {
			if err := r.readSource(ctx, i, source); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// readSource sends the lines of a source that begin has not read.
func (r *run) readSource(ctx context.Context, i int, source Source) error {
	end := r.ends[i]
	scope, follows := r.from(end)
	scope.Follow = true
	p := position{At: end.At}
	return source(ctx, scope, func(l Line) {
		at := l.At.UnixMicro()
		if !follows(at) {
			return
		}
		if at := pass(&p, at); at.At > end.At || at.Number > end.Number {
			r.mu.Lock()
			defer r.mu.Unlock()                                    // the other source must not send the position of a line before the line
			_ = r.feed.Add(ctx, r.item(numbered{l, i, at}), false) // does not wait
		}
	})
}
