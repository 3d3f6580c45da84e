package nodeapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	// relook finds what a lost hint did not say.
	relook = 5 * time.Second
	// watchEvery leaves half of the two seconds in which a revoked node's poll must
	// be closed.
	watchEvery = time.Second
)

// wait holds the call open until there is a task, or for wire.WaitFor.
func (s *Server) wait(w http.ResponseWriter, r *http.Request, who caller) error {
	ctx := r.Context()
	if r.URL.RawQuery != "" {
		return errs.New(errs.UnknownParameter, "this call takes no query")
	}
	// Before the first look: what is hinted at between the two is not missed.
	hinted, deaf := s.Hints.Listen(Topic(who.Node))
	defer deaf()
	fallen, leave := s.polls.enter(who.Serial)
	defer leave()
	end := time.NewTimer(wire.WaitFor)
	defer end.Stop()
	again := time.NewTicker(s.relook())
	defer again.Stop()

	for {
		task, ok, err := s.Tasks.Next(ctx, who.Node)
		if err != nil {
			return err
		}
		if ok {
			s.write(w, r, http.StatusOK, task)
			return nil
		}
		select {
		case <-hinted:
		case <-again.C:
		case <-fallen:
		case <-end.C:
			s.done(w)
			return nil
		case <-s.ending:
			s.done(w)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		// It may have been revoked while it waited: a task must not reach it.
		if err := s.Nodes.Check(ctx, who.Node, who.Serial); err != nil {
			return err
		}
	}
}

func (s *Server) relook() time.Duration {
	if s.Relook > 0 {
		return s.Relook
	}
	return relook
}

// polls are those that are open, by the serial of their certificate.
type polls struct {
	mu   sync.Mutex
	open map[string]map[chan struct{}]struct{}
}

func (p *polls) enter(serial string) (fallen <-chan struct{}, leave func()) {
	c := make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[string]map[chan struct{}]struct{}{}
	}
	if p.open[serial] == nil {
		p.open[serial] = map[chan struct{}]struct{}{}
	}
	p.open[serial][c] = struct{}{}
	return c, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open[serial], c)
		if len(p.open[serial]) == 0 {
			delete(p.open, serial)
		}
	}
}

func (p *polls) serials() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]string, 0, len(p.open))
	for serial := range p.open {
		all = append(all, serial)
	}
	return all
}

func (p *polls) wake(serial string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open[serial] {
		select {
		case c <- struct{}{}:
		default: // it is awake and about to ask
		}
	}
}

// watch wakes the polls of certificates that have fallen. It asks about all of
// them at once: a thousand idle nodes cost one question a second.
func (s *Server) watch(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		open := s.polls.serials()
		if len(open) == 0 {
			continue
		}
		fallen, err := s.Nodes.Fallen(ctx, open)
		if err != nil {
			// Nothing is handed out without asking again, so the polls may stay.
			s.Log.WarnContext(ctx, "certificates of open polls not checked", "err", err)
			continue
		}
		for _, serial := range fallen {
			s.polls.wake(serial)
		}
	}
}
