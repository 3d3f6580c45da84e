package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	// relook finds what a lost hint did not say.
	relook = 5 * time.Second
	// watchEvery leaves half of the two seconds in which a revoked node's poll must
	// be closed.
	watchEvery = time.Second
	// atOnce is how many mailboxes one statement looks into.
	atOnce = 1000
	// lookers is how many of those statements run beside each other: one that waits
	// for the database must not hold up the next.
	lookers = 2
	// lookWithin is past all patience with a database that answers.
	lookWithin = 10 * time.Second
)

// wait begins a poll: the answer comes when there is a task, or after protocol.WaitFor.
// The span of the request ends here, since nothing of it is kept.
func (s *Server) wait(w http.ResponseWriter, r *http.Request, who caller) error {
	if r.URL.RawQuery != "" {
		return errs.New(errs.UnknownParameter, "the operation has no query parameters")
	}
	correlation := w.Header().Get(telemetry.CorrelationHeader)
	parked, err := park(w, r)
	if err != nil {
		return err
	}
	now := wall()
	p := &waiting{
		who: who, correlation: correlation,
		until: now.Add(protocol.WaitFor), lookAt: now.Add(s.relook()), parked: parked,
	}
	older, open := s.hall.enter(p)
	if older != nil {
		s.nothing(older) // its agent was restarted, or it has given up on that connection
	}
	if !open {
		s.nothing(p)
	}
	return nil
}

func (s *Server) relook() time.Duration {
	if s.Relook > 0 {
		return s.Relook
	}
	return relook
}

// resume answers a poll. What the request had is made anew.
func (s *Server) resume(p *waiting, answer func(http.ResponseWriter, *http.Request)) {
	p.parked.resume(func(w http.ResponseWriter) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set(telemetry.CorrelationHeader, p.correlation)
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: fmt.Sprintf(protocol.PathWait, p.who.Node)}}
		answer(w, r.WithContext(s.life))
	})
}

func (s *Server) nothing(p *waiting) {
	s.resume(p, func(w http.ResponseWriter, _ *http.Request) { s.done(w) })
}

func (s *Server) give(p *waiting, task protocol.Signed) {
	s.resume(p, func(w http.ResponseWriter, r *http.Request) { s.write(w, r, http.StatusOK, task) })
}

func (s *Server) deny(p *waiting, err error) {
	s.resume(p, func(w http.ResponseWriter, r *http.Request) { s.refuse(w, r, p.who, err) })
}

// heard wakes the poll of a node whose topic was hinted at.
func (s *Server) heard(topic string) {
	id, ok := strings.CutPrefix(topic, topicPrefix)
	if !ok {
		return
	}
	if node, err := ids.Parse[ids.Node](id); err == nil {
		s.hall.wake(node)
	}
}

// attend looks for whoever is woken, until ctx ends.
func (s *Server) attend(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.hall.ring:
		}
		for batch := s.hall.take(atOnce); len(batch) > 0; batch = s.hall.take(atOnce) {
			s.look(ctx, batch)
		}
	}
}

// look reads the mailboxes of several polls. Their certificates are asked about
// first: one may have fallen while it waited, and a task must not reach it.
func (s *Server) look(ctx context.Context, batch []*waiting) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
	defer cancel()
	standing := s.standing(ctx, batch)
	if len(standing) == 0 {
		return
	}
	nodes := make([]ids.Node, len(standing))
	for i, p := range standing {
		nodes[i] = p.who.Node
	}
	tasks, err := s.Tasks.Next(ctx, nodes...)
	for _, p := range standing {
		task, found := tasks[p.who.Node]
		switch {
		case err != nil:
			if s.hall.leave(p) {
				s.deny(p, err)
			}
		case found:
			// A newer poll may stand in its place: the task is for the node.
			if open := s.hall.leaveAs(p); open != nil {
				s.give(open, task)
			}
		case s.hall.settle(p):
			s.nothing(p)
		}
	}
}

// standing turns away those of the batch whose peer has gone or whose certificate
// has fallen, and returns the others.
func (s *Server) standing(ctx context.Context, batch []*waiting) []*waiting {
	serials := make([]string, len(batch))
	for i, p := range batch {
		serials[i] = p.who.Serial
	}
	list, err := s.Nodes.Fallen(ctx, serials)
	fallen := make(map[string]struct{}, len(list))
	for _, serial := range list {
		fallen[serial] = struct{}{}
	}
	kept := batch[:0]
	for _, p := range batch {
		_, fell := fallen[p.who.Serial]
		switch {
		case err == nil && !fell && !p.parked.gone():
			kept = append(kept, p)
		case !s.hall.leave(p):
		case err != nil:
			s.deny(p, err)
		case fell:
			s.deny(p, s.whyFallen(ctx, p.who))
		default:
			s.nothing(p) // to nobody: the write fails and ends the connection
		}
	}
	return kept
}

func (s *Server) whyFallen(ctx context.Context, who caller) error {
	if err := s.Nodes.Check(ctx, who.Node, who.Serial); err != nil {
		return err
	}
	return errs.New(errs.CertificateRevoked, "this certificate was not in force a moment ago")
}

// watch ends polls whose time is over, and has those looked after that nobody
// woke or whose certificate has fallen. It asks about all of them at once: a
// thousand idle nodes cost one question a second. When ctx ends, it ends them all.
func (s *Server) watch(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, p := range s.hall.shut() {
				s.nothing(p)
			}
			return
		case <-t.C:
		}
		over, serials := s.hall.pass(wall(), s.relook())
		for _, p := range over {
			s.nothing(p)
		}
		if len(serials) == 0 {
			continue
		}
		fallen, err := s.Nodes.Fallen(ctx, serials)
		if err != nil {
			// Nothing is handed out without asking again, so the polls may stay.
			s.Log.WarnContext(ctx, "certificates of open polls not checked", "err", err)
			continue
		}
		s.hall.wakeSerials(fallen)
	}
}
