package terminal

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/terminal"
)

// topics are the hints after which a session may have to end.
var topics = []string{terminal.Topic, identity.Topic, event.Topic, policies.Topic}

// pause is the least time between two checks. Hints about other tenants arrive at any rate.
const pause = 100 * time.Millisecond

// watch checks rights each second, and earlier after a hint.
func (s *Server) watch(ctx context.Context) {
	wake := make(chan struct{}, 1)
	defer s.Hints.Tap(func(topic string) {
		if slices.Contains(topics, topic) {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	})()
	tick := time.NewTicker(valueOr(s.Times.Watch, watchEvery))
	defer tick.Stop()
	seen := s.Clock.Now()
	beaten, recorded := seen, seen
	for {
		if s.check(ctx) {
			seen = s.Clock.Now()
		} else if s.Clock.Now().Sub(seen) >= valueOr(s.Times.Unobserved, blindFor) {
			s.endAll(terminal.Unavailable)
		}
		now := s.Clock.Now()
		s.sweep(now)
		if now.Sub(beaten) >= beatEvery {
			beaten = now
			s.beat(ctx)
		}
		if now.Sub(recorded) >= recordEvery {
			recorded = now
			s.record(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			continue
		case <-wake:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// check reads the rights of all sessions, and ends those that lost theirs. It returns false without the database.
func (s *Server) check(ctx context.Context) bool {
	known := s.all() // before the statement: a session that begins meanwhile is not missing
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	ends, err := s.Sessions.Ends(ctx, s.instance, uuid.Nil)
	if err != nil {
		s.Log.WarnContext(ctx, "reading the rights of terminal sessions", slog.Any("err", err))
		return false
	}
	for _, one := range known {
		reason, exists := ends[one.row.ID]
		switch {
		case !exists: // another server has ended it
			one.end(terminal.Lost)
		case reason != "":
			one.end(reason)
		}
	}
	s.repeat(ctx, ends)
	return true
}

// forgotten is the age of a row without a session here. A session that begins has a row before it is known.
const forgotten = time.Minute

// repeat records ends that the database does not have.
func (s *Server) repeat(ctx context.Context, rows map[uuid.UUID]terminal.Reason) {
	s.mu.Lock()
	late := maps.Clone(s.unended)
	now := s.Clock.Now()
	for id := range s.strange {
		if _, exists := rows[id]; !exists {
			delete(s.strange, id)
		}
	}
	for id := range rows {
		if s.open[id] != nil {
			continue
		}
		if _, known := late[id]; known {
			continue
		}
		if first, known := s.strange[id]; !known {
			s.strange[id] = now
		} else if now.Sub(first) >= forgotten {
			late[id] = unended{terminal.Session{ID: id}, terminal.Ended{Reason: terminal.Lost}}
		}
	}
	s.mu.Unlock()
	for id, u := range late {
		if err := s.Sessions.End(ctx, u.row, u.end); err != nil {
			return // the next check repeats it
		}
		s.mu.Lock()
		delete(s.unended, id)
		s.mu.Unlock()
	}
}

func (s *Server) endAll(reason terminal.Reason) {
	for _, one := range s.all() {
		one.end(reason)
	}
}

// sweep ends sessions that are idle, without a client, without a recording that is required now, or with forwarding that is not
// allowed any more.
func (s *Server) sweep(now time.Time) {
	for _, one := range s.all() {
		idle := one.limits().Idle
		detached := one.detachedAt.Load()
		switch {
		case idle > 0 && now.Sub(time.UnixMilli(one.active.Load())) >= idle:
			one.end(terminal.Idle)
		case detached != 0 && now.Sub(time.UnixMilli(detached)) >= valueOr(s.Times.Detached, detachedFor):
			one.end(terminal.Disconnected)
		case one.hasBegun() && one.mustRecord() && !one.isRecorded():
			one.end(terminal.RecordingRequired)
		case one.row.Purpose == terminal.SSH && one.forwards && !one.limits().Forwarding: // sshd applies its new rule to new connections only
			one.end(terminal.RightLost)
		}
	}
}

func (s *Server) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	alive, err := s.Sessions.Beat(ctx, s.instance)
	if err != nil {
		s.Log.WarnContext(ctx, "heartbeat of a terminal server", slog.Any("err", err))
	}
	if alive {
		return
	}
	// The others have ended the sessions.
	s.endAll(terminal.Lost)
	if err := s.Sessions.Register(ctx, s.instance, s.Advertise); err != nil {
		s.Log.WarnContext(ctx, "registering again", slog.Any("err", err))
	}
}

// record stores the bytes of all sessions.
func (s *Server) record(ctx context.Context) {
	var traffic []terminal.Traffic
	for _, one := range s.all() {
		traffic = append(traffic, terminal.Traffic{ID: one.row.ID, Received: one.received.Load(), Sent: one.sent.Load(), Connected: one.detachedAt.Load() == 0})
	}
	if len(traffic) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	if err := s.Sessions.Record(ctx, traffic); err != nil {
		s.Log.WarnContext(ctx, "recording the bytes of terminal sessions", slog.Any("err", err))
	}
}
