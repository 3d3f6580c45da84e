package helper

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Stream is the verified request for a stream. The network process connects Login or the lines of a log with Address, or sends
// Reason there.
type Stream struct {
	ID        ids.Task            `json:"stream_id"`
	Kind      protocol.StreamKind `json:"kind"`
	Address   string              `json:"address"`
	ServerKey string              `json:"server_key"`
	Login     string              `json:"login,omitempty"`  // host:port on loopback
	Reason    string              `json:"reason,omitempty"` // why the stream is not opened
}

// LoginHost has the sshd to which streams lead.
type LoginHost interface {
	// LoginAddress returns the address of sshd on loopback for an account.
	LoginAddress(ctx context.Context, user string) (string, error)
}

// streams contains the ids of streams that were requested, each until its request expires.
type streams struct{ used map[ids.Task]time.Time }

// maxStreams limits the ids. A node has far fewer streams, and an id stays for seconds.
const maxStreams = 4096

// add rejects an id that was used before.
func (s *streams) add(id ids.Task, expires, now time.Time) error {
	maps.DeleteFunc(s.used, func(_ ids.Task, end time.Time) bool { return !now.Before(end) })
	switch _, used := s.used[id]; {
	case used:
		return protocol.Reject(protocol.Replayed, "stream %s was requested before", id)
	case len(s.used) >= maxStreams:
		return protocol.Reject(protocol.SlotBusy, "%d streams were requested within seconds", len(s.used))
	case s.used == nil:
		s.used = map[ids.Task]time.Time{}
	}
	s.used[id] = expires
	return nil
}

// Stream verifies a request for a stream. It returns an error for a request that no relay key of the control plane has
// signed for this node, or that is repeated: nothing is sent to its address. A request that this node rejects for another
// reason contains the reason.
func (l *Local) Stream(ctx context.Context, signed protocol.Signed) (s Stream, err error) {
	e, p, err := protocol.OpenRelay(signed, l.Relays())
	if err == nil && e.Node != l.Node {
		err = protocol.Reject(protocol.Misaddressed, "the stream is for node %s", e.Node)
	}
	if err != nil {
		return s, err
	}
	now := l.Clock.Now()
	l.mu.Lock()
	err = l.streams.add(e.Task, e.ExpiresAt, now)
	l.mu.Unlock()
	if err != nil {
		return s, err
	}
	s = Stream{ID: e.Task, Kind: p.Kind, Address: p.Address, ServerKey: p.ServerKey}
	if err = e.Fresh(now); err == nil {
		switch p.Kind {
		case protocol.StreamSSH:
			s.Login, err = l.login(ctx, e)
		case protocol.StreamLogs:
			err = l.openLog(e, *p.Log) //nolint:contextcheck // a log outlives the call
		}
	}
	if err != nil {
		s.Reason = err.Error()
	}
	return s, nil
}

func (l *Local) login(ctx context.Context, e protocol.Envelope) (string, error) {
	params, err := l.runner.Active(e.Allocation, e.Fence)
	if err != nil {
		return "", err
	}
	host, ok := l.Host.(LoginHost)
	if !ok {
		return "", errors.New("this node has no logins")
	}
	return host.LoginAddress(ctx, params.User)
}
