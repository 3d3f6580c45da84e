// Package natsd runs NATS JetStream inside this process, or connects to one that
// runs elsewhere; both give the same connection. It makes no streams and knows
// no subjects.
package natsd

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Config is the configuration of a server: the folder of its streams and its address.
type Config struct {
	Dir string // made when missing; streams survive a restart in it
	// Listen also opens a loopback address, for command line tools and for agents of other
	// processes. Port 0 selects a free port.
	Listen bool
	Port   int
	Log    *slog.Logger
}

const (
	// Memory streams are not used; this memory is for JetStream's indexes of file streams.
	maxMemory = 64 << 20
	// A full store rejects messages. The outbox retries them, so none is lost.
	maxStore = 4 << 30
	// A file server is ready in a few milliseconds. The recovery of big streams needs more time.
	readyWithin = 30 * time.Second
	pollEvery   = 100 * time.Millisecond
)

// Server is a NATS server in this process.
type Server struct {
	ns *server.Server
}

// Start returns after the server accepts connections. A start in the same folder after Stop, or
// after a crash, finds the streams unchanged.
func Start(c Config) (*Server, error) {
	if err := dropHalfMade(c); err != nil {
		return nil, fmt.Errorf("starting NATS in %s: %w", c.Dir, err)
	}
	ns, err := server.NewServer(&server.Options{
		ServerName: "gpuaas",
		Host:       "127.0.0.1",
		Port:       port(c),
		DontListen: !c.Listen,
		NoSigs:     true, // the process's signals are its owner's
		JetStream:  true,
		StoreDir:   c.Dir,
		// By default JetStream syncs every two minutes: what it acknowledged
		// before a power cut was lost, and the stream with it.
		SyncAlways:             true,
		JetStreamMaxMemory:     maxMemory,
		JetStreamMaxStore:      maxStore,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, fmt.Errorf("configuring NATS in %s: %w", c.Dir, err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	fatal := make(chan string, 1)
	ns.SetLoggerV2(logger{c.Log, fatal}, false, false, false)
	s := &Server{ns}
	ns.Start()
	if err := s.ready(fatal); err != nil {
		s.Stop()
		return nil, fmt.Errorf("starting NATS in %s: %w", c.Dir, err)
	}
	return s, nil
}

// dropHalfMade deletes streams whose creation was interrupted by a crash: the description exists
// and its checksum does not. The server ignores such a stream, creates another one in the same
// folder on request, and never writes the checksum. The stream would lose all its messages at every
// restart.
func dropHalfMade(c Config) error {
	metas, err := filepath.Glob(filepath.Join(c.Dir, server.JetStreamStoreDir, "*", "streams", "*", server.JetStreamMetaFile))
	if err != nil {
		return fmt.Errorf("listing streams: %w", err)
	}
	for _, meta := range metas {
		dir := filepath.Dir(meta)
		if _, err := os.Stat(filepath.Join(dir, server.JetStreamMetaFileSum)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if c.Log != nil {
			c.Log.Warn("a stream was created only in part, and is created again", "stream", filepath.Base(dir))
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing half a stream: %w", err)
		}
	}
	return nil
}

func port(c Config) int {
	if c.Port == 0 {
		return server.RANDOM_PORT
	}
	return c.Port
}

func (s *Server) ready(fatal <-chan string) error {
	for range readyWithin / pollEvery {
		select {
		case text := <-fatal:
			return errors.New(text)
		default:
		}
		if s.ns.ReadyForConnections(pollEvery) && s.ns.JetStreamEnabled() {
			return nil
		}
	}
	return errors.New("it did not get ready: is the folder used by another server?")
}

// URL is the loopback address, empty where the server does not listen.
func (s *Server) URL() string {
	if s.ns.Addr() == nil {
		return ""
	}
	return s.ns.ClientURL()
}

// Connect opens a connection through memory.
func (s *Server) Connect(name string) (*nats.Conn, error) {
	return dial("", name, nats.InProcessServer(s.ns))
}

// Stop ends the server and returns when its files are closed.
func (s *Server) Stop() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
}

// Dial connects to a remote server. An unavailable server is no error: the connection is opened
// when the server starts, and until then publishing fails.
func Dial(address, name string) (*nats.Conn, error) {
	return dial(address, name, nats.RetryOnFailedConnect(true))
}

// ownInbox has replies sent to an inbox of the user of the address: with one inbox for all users, each could read the
// replies to the others. It returns nil without a user. A user without a password is a token, which is a secret.
func ownInbox(address string) nats.Option {
	first, _, _ := strings.Cut(address, ",")
	if first = strings.TrimSpace(first); !strings.Contains(first, "://") {
		first = "nats://" + first // as the client does
	}
	u, err := url.Parse(first)
	if err != nil {
		return nil
	}
	if _, ok := u.User.Password(); !ok {
		return nil
	}
	return nats.CustomInboxPrefix("_INBOX_" + u.User.Username())
}

func dial(address, name string, more nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect(address, more, ownInbox(address),
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		// Nothing is buffered while disconnected. The outbox publishes unsent events again, so a
		// buffered copy would arrive late.
		nats.ReconnectBufSize(-1),
	)
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	return nc, nil
}

const (
	reconnectWait = 250 * time.Millisecond
	// The relay's window is smaller. Above this number the client returns an error.
	maxPending = 4_096
	// A server that stores does it in milliseconds; one that is gone never answers.
	ackWithin = 5 * time.Second
)

// JetStream opens JetStream over a connection, with bounds on what is published
// without an answer.
func JetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	js, err := jetstream.New(nc,
		jetstream.WithPublishAsyncMaxPending(maxPending), jetstream.WithPublishAsyncTimeout(ackWithin))
	if err != nil {
		return nil, fmt.Errorf("opening JetStream: %w", err)
	}
	return js, nil
}
