package logs

import (
	"context"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// The limits of one stream. A reader that falls behind loses lines, and receives their number.
const (
	maxWaitingBytes = 512 << 10
	linesPerSecond  = 1000
	bytesPerSecond  = 256 << 10
	burstLines      = 5000
	burstBytes      = 512 << 10
	// overhead of an item besides its text.
	overhead = 64
)

// Feed is the bounded buffer between a source and the reader of its lines.
type Feed struct {
	mu           sync.Mutex
	items        []protocol.LogItem
	size         int
	dropped      int
	over         bool
	reason       string
	freed        chan struct{}
	lines, bytes float64 // that Next may return now
	lastRead     time.Time
}

// NewFeed returns a feed that was read at now.
func NewFeed(now time.Time) *Feed {
	return &Feed{freed: make(chan struct{}, 1), lines: burstLines, bytes: burstBytes, lastRead: now}
}

// Add appends an item. A full feed drops the item, or waits for the reader.
func (f *Feed) Add(ctx context.Context, item protocol.LogItem, wait bool) error {
	for {
		if f.add(item, wait) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.freed:
		}
	}
}

func (f *Feed) add(item protocol.LogItem, wait bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := len(item.Text) + overhead
	if f.size > 0 && f.size+size > maxWaitingBytes {
		if !wait {
			f.dropped++
		}
		return !wait
	}
	f.flushDropped()
	f.items, f.size = append(f.items, item), f.size+size
	return true
}

// flushDropped puts the number of dropped lines where they are missing.
func (f *Feed) flushDropped() {
	if f.dropped > 0 {
		f.items, f.size, f.dropped = append(f.items, protocol.LogItem{Dropped: f.dropped}), f.size+overhead, 0
	}
}

// End states that no item follows, and why.
func (f *Feed) End(reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over, f.reason = true, reason
}

// LastRead returns the time of the last Next.
func (f *Feed) LastRead() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lastRead
}

// Next returns the oldest items that the rates allow. over means that none follows.
func (f *Feed) Next(now time.Time) (items []protocol.LogItem, over bool, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	passed := max(0, now.Sub(f.lastRead).Seconds())
	f.lastRead = now
	f.lines, f.bytes = min(burstLines, f.lines+passed*linesPerSecond), min(burstBytes, f.bytes+passed*bytesPerSecond)
	if len(f.items) == 0 {
		f.flushDropped()
	}
	n := 0
	for ; n < len(f.items) && f.lines >= 1 && f.bytes > 0; n++ {
		size := len(f.items[n].Text) + overhead
		f.lines, f.bytes, f.size = f.lines-1, f.bytes-float64(size), f.size-size
	}
	items, f.items = f.items[:n:n], f.items[n:]
	if n > 0 {
		select {
		case f.freed <- struct{}{}:
		default:
		}
	}
	return items, f.over && len(f.items) == 0 && f.dropped == 0, f.reason
}
