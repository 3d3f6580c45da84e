// Package terminal serves the websockets of terminals and SSH connections. For a terminal the server is the SSH client: it
// continues the session while a browser loads its page again. For an SSH connection it copies bytes. Both reach a node over the
// connection that its agent opens.
package terminal

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/product/terminal/recording"
)

// The subprotocols of the websockets.
const (
	ShellProtocol = "gpuaas.terminal.v1"
	SSHProtocol   = "gpuaas.ssh.v1"
)

const (
	watchEvery  = time.Second
	beatEvery   = 5 * time.Second
	recordEvery = time.Minute
	pingEvery   = 25 * time.Second
	// blindFor is the time without the database after which all sessions are closed.
	blindFor = 5 * time.Second
	// detachedFor is the time without a client after which a terminal ends.
	detachedFor = 2 * time.Minute
	// patience limits one write to a client, and the response to a ping.
	patience = 10 * time.Second
	// connectWithin limits the connection to the node and the login.
	connectWithin = 20 * time.Second
	// closing bounds the time between the end of a session and that of the websocket.
	closing = 500 * time.Millisecond
)

// Target is the SSH service of an allocation.
type Target struct {
	Node       ids.Node
	Allocation ids.Allocation
	Fence      int64
	Trace      string
}

// Server serves websockets. All fields without a comment are required.
type Server struct {
	Sessions   *terminal.Service
	Recordings *recording.Service
	// Dial returns a connection to the SSH service of an allocation.
	Dial func(context.Context, Target) (net.Conn, error)
	// Sign makes certificates for terminals, which are valid for LoginLife.
	Sign      allocation.Signs
	LoginLife func() time.Duration
	// PublicURL returns the address under which browsers reach the server.
	PublicURL func() string
	// Client returns the program that sent a request; nil: the other end of the connection.
	Client func(*http.Request) audit.Client
	// Advertise contains the address and the key of this server, for agents and other servers.
	Advertise terminal.Instance
	// Peer returns a transport to another server; nil: there is none.
	Peer    func(terminal.Instance) http.RoundTripper
	Hints   *hint.Bus
	Metrics *Metrics
	Log     *slog.Logger
	Clock   clock.Clock
	// Times are for tests; zero values mean the constants.
	Times Times

	instance uuid.UUID
	problems response.Problems
	base     context.Context //nolint:containedctx // of sessions, which outlive the requests that begin them
	stops    context.Context //nolint:containedctx // ends when the server stops; connections to other servers end with it

	mu       sync.Mutex
	open     map[uuid.UUID]*session
	unended  map[uuid.UUID]unended   // ends that the database does not have yet
	strange  map[uuid.UUID]time.Time // rows of this server without a session here
	stopping bool
	running  sync.WaitGroup
}

// Times replace constants in tests.
type Times struct{ Watch, Unobserved, Detached, Ping, Patience time.Duration }

type unended struct {
	row terminal.Session
	end terminal.Ended
}

func valueOr(v, usual time.Duration) time.Duration {
	if v == 0 {
		return usual
	}
	return v
}

// Handler serves /ws/terminal/{allocation_id} and /ws/ssh/{allocation_id}. Run must have begun.
func (s *Server) Handler() http.Handler {
	s.problems.Log = s.Log
	m := http.NewServeMux()
	m.HandleFunc("GET /ws/terminal/{allocation}", func(w http.ResponseWriter, r *http.Request) {
		if !s.forward(w, r) {
			s.serve(w, r, terminal.Shell)
		}
	})
	m.HandleFunc("GET /ws/ssh/{allocation}", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, terminal.SSH) })
	return telemetry.Traced("gpuaas/terminal", m)
}

// Start registers this server. Call it before Run and before the first request. The server stops when ctx ends.
func (s *Server) Start(ctx context.Context) error {
	s.instance, s.base, s.stops = uuid.Must(uuid.NewV7()), context.WithoutCancel(ctx), ctx
	s.open, s.unended, s.strange = map[uuid.UUID]*session{}, map[uuid.UUID]unended{}, map[uuid.UUID]time.Time{}
	return s.Sessions.Register(ctx, s.instance, s.Advertise)
}

// Run watches the rights of all sessions until ctx ends. Then it ends the sessions and removes the server.
func (s *Server) Run(ctx context.Context) error {
	s.watch(ctx)
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	for _, one := range s.all() {
		one.end(terminal.Restarted)
	}
	s.running.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), blindFor)
	defer cancel()
	return s.Sessions.Deregister(last, s.instance)
}

func (s *Server) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*session, 0, len(s.open))
	for _, one := range s.open {
		list = append(list, one)
	}
	return list
}

// add begins a session. It returns nil if the server stops.
func (s *Server) add(o terminal.Opened, trace string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil
	}
	one := newSession(s, o, trace)
	s.open[o.ID] = one
	s.running.Add(1)
	s.Metrics.sessions.WithLabelValues(string(o.Purpose)).Inc()
	return one
}

// remove records the end of a session. Without the database, the watcher repeats it.
func (s *Server) remove(one *session, e terminal.Ended) {
	defer s.running.Done()
	ctx, cancel := context.WithTimeout(s.base, blindFor)
	defer cancel()
	err := s.Sessions.End(ctx, one.row.Session, e)
	if err != nil {
		s.Log.WarnContext(ctx, "recording the end of a terminal session", slog.String("session_id", one.row.ID.String()), slog.Any("err", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, one.row.ID)
	if err != nil {
		s.unended[one.row.ID] = unended{one.row.Session, e}
	}
	s.Metrics.ended(one.row.Purpose, e)
}
