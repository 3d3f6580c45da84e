package nodeapi

import (
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// waiting is an open poll.
type waiting struct {
	who         caller
	correlation string
	until       time.Time // then the poll ends without a task
	readAt      time.Time // then its mailbox is read without a hint
	parked      *parked
	streams     bool // its agent opens streams

	queued  bool // a read of its mailbox is due
	looking bool // its mailbox is being read
}

// waiters contains the open polls, one for each node. A second poll of a node replaces the first,
// because an agent that polls again no longer waits for the first response.
type waiters struct {
	mu     sync.Mutex
	open   map[ids.Node]*waiting
	due    []*waiting    // polls whose mailbox should be read; some may have ended
	wakeup chan struct{} // buffered; has a value while due is not empty
	over   bool
}

func (h *waiters) init() {
	h.open, h.wakeup = map[ids.Node]*waiting{}, make(chan struct{}, 1)
}

// enter adds a poll, whose mailbox is read at once, and returns the poll that it replaces. open is
// false after shut, when no poll may wait.
func (h *waiters) enter(p *waiting) (older *waiting, open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil, false
	}
	older = h.open[p.who.Node]
	h.open[p.who.Node] = p
	h.queue(p)
	return older, true
}

// queue schedules a read of the poll's mailbox. The caller has locked h.mu. If the mailbox is being
// read, settle schedules the next read: two concurrent readers would fetch two tasks for one
// response.
func (h *waiters) queue(p *waiting) {
	if p.queued {
		return
	}
	p.queued = true
	if p.looking {
		return
	}
	h.due = append(h.due, p)
	h.call()
}

func (h *waiters) call() {
	select {
	case h.wakeup <- struct{}{}:
	default:
	}
}

func (h *waiters) wake(node ids.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.open[node]; p != nil {
		h.queue(p)
	}
}

func (h *waiters) wakeSerials(serials []string) {
	if len(serials) == 0 {
		return
	}
	fallen := make(map[string]struct{}, len(serials))
	for _, s := range serials {
		fallen[s] = struct{}{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.open {
		if _, ok := fallen[p.who.Serial]; ok {
			h.queue(p)
		}
	}
}

// nextBatch returns up to most polls whose mailbox should be read. The caller reads their mailboxes.
func (h *waiters) nextBatch(most int) (batch []*waiting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for ; n < len(h.due) && len(batch) < most; n++ {
		p := h.due[n]
		h.due[n] = nil
		if h.open[p.who.Node] != p {
			continue // the poll has ended
		}
		p.queued, p.looking = false, true
		batch = append(batch, p)
	}
	h.due = h.due[n:]
	if len(h.due) == 0 {
		h.due = nil
	} else {
		h.call() // notifies another reader for the rest
	}
	return batch
}

// leave removes the poll and reports whether it was still open. If so, the caller sends the
// response.
func (h *waiters) leave(p *waiting) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[p.who.Node] != p {
		return false
	}
	delete(h.open, p.who.Node)
	return true
}

// takeOver removes the current poll of the same node, which may be newer than p, and returns it. It
// returns nil if the node has no open poll.
func (h *waiters) takeOver(p *waiting) *waiting {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.open[p.who.Node]
	delete(h.open, p.who.Node)
	return now
}

// remove ends a read that found no task. It returns true if the poll must end, because shut was
// called during the read; the caller then sends the response.
func (h *waiters) remove(p *waiting) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[p.who.Node] != p {
		return false
	}
	p.looking = false
	switch {
	case h.over:
		delete(h.open, p.who.Node)
	case p.queued:
		p.queued = false
		h.queue(p)
	}
	return h.over
}

// pass removes and returns the expired polls. It schedules a read for polls that had none for the
// interval every, and returns the serials of all polls that remain.
func (h *waiters) pass(now time.Time, every time.Duration) (over []*waiting, serials []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	serials = make([]string, 0, len(h.open))
	for node, p := range h.open {
		switch {
		case p.looking:
		case !now.Before(p.until):
			delete(h.open, node)
			over = append(over, p)
			continue
		case !now.Before(p.readAt):
			p.readAt = now.Add(every)
			h.queue(p)
		}
		serials = append(serials, p.who.Serial)
	}
	return over, serials
}

// shut removes and returns all polls whose mailbox is not being read. The readers end the others.
func (h *waiters) shut() (all []*waiting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	for node, p := range h.open {
		if !p.looking {
			delete(h.open, node)
			all = append(all, p)
		}
	}
	return all
}
