package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	// relook is the default interval after which a mailbox is read without a hint, because a hint
	// may be lost.
	relook = 5 * time.Second
	// watchEvery is half of the two seconds in which the poll of a revoked node must end.
	watchEvery = time.Second
	// atOnce limits the mailboxes that one statement reads.
	atOnce = 1000
	// lookers is the number of concurrent readers. With one reader, a statement that waits for the
	// database would delay all other polls.
	lookers = 2
	// readWithin limits one read of mailboxes. A database that works responds much faster.
	readWithin = 10 * time.Second
)

// wait begins a poll, which gets its response when a task is available or after protocol.WaitFor.
// The handler returns at once, so the span of the request ends here.
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
		until: now.Add(protocol.WaitFor), readAt: now.Add(s.relook()), parked: parked, streams: opensStreams(r),
	}
	older, open := s.waiters.enter(p)
	if older != nil {
		s.nothing(older) // the agent was restarted, or has abandoned that connection
	}
	if !open {
		s.nothing(p)
	}
	return nil
}

// opensStreams reports whether an agent understands a response with requests for streams.
func opensStreams(r *http.Request) bool {
	capability, err := strconv.Atoi(r.Header.Get(protocol.CapabilityHeader))
	return err == nil && capability >= protocol.RelayCapability
}

func (s *Server) relook() time.Duration {
	if s.Relook > 0 {
		return s.Relook
	}
	return relook
}

// resume sends the response of a poll. The original request no longer exists, so resume builds a
// new one.
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

func (s *Server) give(p *waiting, d protocol.Delivery) {
	s.resume(p, func(w http.ResponseWriter, r *http.Request) { s.write(w, r, http.StatusOK, d) })
}

func (s *Server) deny(p *waiting, err error) {
	s.resume(p, func(w http.ResponseWriter, r *http.Request) { s.reject(w, r, p.who, err) })
}

// heard schedules a read of the mailbox that a hint names.
func (s *Server) heard(topic string) {
	id, ok := strings.CutPrefix(topic, topicPrefix)
	if !ok {
		return
	}
	if node, err := ids.Parse[ids.Node](id); err == nil {
		s.waiters.wake(node)
	}
}

// attend reads the mailboxes that are scheduled for a read, until ctx ends.
func (s *Server) attend(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.waiters.wakeup:
		}
		for batch := s.waiters.nextBatch(atOnce); len(batch) > 0; batch = s.waiters.nextBatch(atOnce) {
			s.readMailboxes(ctx, batch)
		}
	}
}

// readMailboxes reads the mailboxes of several polls. It checks their certificates first: a certificate may
// have been revoked during the poll, and its owner must not receive a task.
func (s *Server) readMailboxes(ctx context.Context, batch []*waiting) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	valid := s.withValidCertificate(ctx, batch)
	if len(valid) == 0 {
		return
	}
	nodes := make([]ids.Node, len(valid))
	for i, p := range valid {
		nodes[i] = p.who.Node
	}
	requested := make(chan map[ids.Node][]protocol.Signed, 1)
	go func() { requested <- s.requestedStreams(ctx, valid) }() // two statements at the same time
	tasks, err := s.Tasks.Next(ctx, nodes...)
	streams := <-requested
	for _, p := range valid {
		task, found := tasks[p.who.Node]
		relays := streams[p.who.Node]
		switch {
		case err != nil:
			if s.waiters.leave(p) {
				s.deny(p, err)
			}
		case found || len(relays) > 0:
			// A newer poll may have replaced p. It gets the task, because the task belongs to the
			// node and not to one poll.
			if open := s.waiters.takeOver(p); open != nil {
				s.give(open, protocol.Delivery{Signed: task, Relays: relays})
			}
		case s.waiters.remove(p):
			s.nothing(p)
		}
	}
}

// requestedStreams returns the requests for streams of the polls whose agents open streams. Without them the tasks are
// delivered: the terminal server repeats its requests.
func (s *Server) requestedStreams(ctx context.Context, polls []*waiting) map[ids.Node][]protocol.Signed {
	var nodes []ids.Node
	for _, p := range polls {
		if p.streams {
			nodes = append(nodes, p.who.Node)
		}
	}
	if s.Relays == nil || len(nodes) == 0 {
		return nil
	}
	requested, err := s.Relays.Next(ctx, nodes...)
	if err != nil {
		s.Log.WarnContext(ctx, "requests for streams not read", "err", err)
	}
	return requested
}

// withValidCertificate ends the polls of the batch whose peer has disconnected or whose certificate is no
// longer in force, and returns the others.
func (s *Server) withValidCertificate(ctx context.Context, batch []*waiting) []*waiting {
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
		case !s.waiters.leave(p):
		case err != nil:
			s.deny(p, err)
		case fell:
			s.deny(p, s.whyFallen(ctx, p.who))
		default:
			s.nothing(p) // the peer has disconnected: the write fails and closes the connection
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

// watch ends expired polls, and schedules a read for polls without a recent hint and for polls
// whose certificate is no longer in force. It checks all certificates with one query a second,
// however many nodes poll. When ctx ends, watch ends all polls.
func (s *Server) watch(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, p := range s.waiters.shut() {
				s.nothing(p)
			}
			return
		case <-t.C:
		}
		over, serials := s.waiters.pass(wall(), s.relook())
		for _, p := range over {
			s.nothing(p)
		}
		if len(serials) == 0 {
			continue
		}
		fallen, err := s.Nodes.Fallen(ctx, serials)
		if err != nil {
			// The polls may stay open: the certificate is checked again before a task is sent.
			s.Log.WarnContext(ctx, "certificates of open polls not checked", "err", err)
			continue
		}
		s.waiters.wakeSerials(fallen)
	}
}
