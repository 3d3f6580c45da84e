package nodeapi

import (
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// waiting is an open poll, and all that is kept of it.
type waiting struct {
	who         caller
	correlation string
	until       time.Time // answered with nothing then
	lookAt      time.Time // looked after without a hint
	parked      *parked

	queued  bool // it was woken
	looking bool // somebody reads its mailbox
}

// hall is where polls wait: one for each node, as a node that asks twice has
// forgotten the first.
type hall struct {
	mu    sync.Mutex
	open  map[ids.Node]*waiting
	woken []*waiting    // may hold some that have left
	ring  chan struct{} // full while somebody is woken
	over  bool
}

func (h *hall) init() {
	h.open, h.ring = map[ids.Node]*waiting{}, make(chan struct{}, 1)
}

// enter adds a poll, which is looked after at once, and returns the one that it
// takes the place of. open is false when nobody may wait any more.
func (h *hall) enter(p *waiting) (older *waiting, open bool) {
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

// queue needs h.mu. Who is woken while its mailbox is read is queued when that is
// done: two readers at once would take two tasks for one answer.
func (h *hall) queue(p *waiting) {
	if p.queued {
		return
	}
	p.queued = true
	if p.looking {
		return
	}
	h.woken = append(h.woken, p)
	h.call()
}

func (h *hall) call() {
	select {
	case h.ring <- struct{}{}:
	default:
	}
}

func (h *hall) wake(node ids.Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.open[node]; p != nil {
		h.queue(p)
	}
}

func (h *hall) wakeSerials(serials []string) {
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

// take returns some of those that were woken; they are looked after by the caller.
func (h *hall) take(most int) (batch []*waiting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for ; n < len(h.woken) && len(batch) < most; n++ {
		p := h.woken[n]
		h.woken[n] = nil
		if h.open[p.who.Node] != p {
			continue // it has left
		}
		p.queued, p.looking = false, true
		batch = append(batch, p)
	}
	h.woken = h.woken[n:]
	if len(h.woken) == 0 {
		h.woken = nil
	} else {
		h.call() // for the next of those who look
	}
	return batch
}

// leave says whether the poll was still open; if so, the caller answers it.
func (h *hall) leave(p *waiting) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open[p.who.Node] != p {
		return false
	}
	delete(h.open, p.who.Node)
	return true
}

// leaveAs is leave for whichever poll of the same node is open now.
func (h *hall) leaveAs(p *waiting) *waiting {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.open[p.who.Node]
	delete(h.open, p.who.Node)
	return now
}

// settle ends a look that found nothing. It is true when the poll ends, too, and
// the caller answers it: nobody may wait any more.
func (h *hall) settle(p *waiting) bool {
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

// pass removes those whose time is over, wakes those whose turn it is to be looked
// after, and returns the serials of all others.
func (h *hall) pass(now time.Time, every time.Duration) (over []*waiting, serials []string) {
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
		case !now.Before(p.lookAt):
			p.lookAt = now.Add(every)
			h.queue(p)
		}
		serials = append(serials, p.who.Serial)
	}
	return over, serials
}

// shut ends the waiting; those whose mailbox is being read are left to the reader.
func (h *hall) shut() (all []*waiting) {
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
