package http1

import (
	"net/http"
	"sync/atomic"
)

// Parked is a request that waits for its answer without a goroutine.
type Parked struct {
	c       *conn
	answer  func(http.ResponseWriter)
	turns   atomic.Int32 // the second of two goes on: the loop that leaves, and Resume
	closing bool
}

// Park lets a handler return without an answer, which Resume gives later. It is
// false where w is not of this server; the handler must answer by itself then.
// What the handler has set in w's header is forgotten.
func Park(w http.ResponseWriter) (*Parked, bool) {
	for {
		switch is := w.(type) {
		case *reply:
			is.parked = &Parked{c: is.c}
			return is.parked, true
		case interface{ Unwrap() http.ResponseWriter }:
			w = is.Unwrap()
		default:
			return nil, false
		}
	}
}

// Resume answers, on a goroutine that then waits for the peer's next request. It
// is called once, and does not block.
func (p *Parked) Resume(answer func(http.ResponseWriter)) {
	p.answer = answer
	if p.turns.Add(1) == 2 {
		go p.goOn()
	}
}

// Gone says whether the peer has hung up meanwhile, as far as the kernel knows.
func (p *Parked) Gone() bool { return hungUp(p.c.tcp) }

// left is told by the loop when it has let go of the connection.
func (p *Parked) left() fate {
	if p.turns.Add(1) == 1 {
		return later
	}
	return p.say() // the answer came before the handler had returned
}

func (p *Parked) goOn() {
	if p.say() == next {
		p.c.serve()
		return
	}
	p.c.hangUp()
}

func (p *Parked) say() fate {
	w := &reply{c: p.c, header: http.Header{}, closing: p.closing || p.c.s.isEnding()}
	if !p.c.guard(func() { p.answer(w) }) || !w.finish() {
		return last
	}
	return next
}
