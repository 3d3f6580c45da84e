// Package pgcluster runs a private PostgreSQL: one data directory, one owner process, and one Unix
// socket that only its user can open. It downloads nothing and uses the installed server binaries.
//
// It rejects what would damage data: a directory in use, a directory of another major version, and
// running as root. It knows no schema.
package pgcluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Config is the configuration of a cluster.
type Config struct {
	// Dir contains data/, run/ (the socket), lock and postgres.log. It is created if it is missing.
	Dir string
	// Durable makes commits survive a power cut. Without it the cluster is for tests.
	Durable bool
	// Params are further server settings, by name; they win over ours.
	Params map[string]string
	Log    *slog.Logger
}

// Cluster is a started PostgreSQL. It ends with the process that started it.
type Cluster struct {
	cfg    Config
	bin    Binaries
	as     owner
	data   string
	socket string
	lock   *os.File

	mu       sync.Mutex // locked while a server starts or stops
	server   *process
	stopping bool
}

// Start makes the data directory when there is none, and returns when the
// server accepts connections. errs.Conflict means that another process owns the
// directory; its pid is in the details.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("naming the cluster's directory: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // data/ and run/ inside are 0700
		return nil, fmt.Errorf("making the cluster's directory: %w", err)
	}
	cfg.Dir = dir
	c := &Cluster{cfg: cfg, data: filepath.Join(dir, "data"), socket: socketFolder(dir)}
	if c.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	if err := c.begin(ctx); err != nil {
		_ = unlock(c.lock)
		return nil, err
	}
	return c, nil
}

func (c *Cluster) begin(ctx context.Context) (err error) {
	if c.bin, err = suiting(ctx, c.data); err != nil {
		return err
	}
	if c.as, err = ownerOf(c.data); err != nil {
		return err
	}
	switch major, err := versionOf(c.data); {
	case err != nil:
		return err
	case major == 0:
		if err := initdb(ctx, c.bin, c.as, c.data, c.cfg.Durable); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.launch(ctx)
}

// longestSocket is the longest directory for a socket. The kernel allows 108 bytes for the path,
// including "/.s.PGSQL.5432.lock" and the final zero.
const longestSocket = 107 - len("/.s.PGSQL.5432.lock")

func socketFolder(dir string) string {
	if run := filepath.Join(dir, "run"); len(run) <= longestSocket {
		return run
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join("/tmp", "gpuaas-"+hex.EncodeToString(sum[:6]))
}

// URL returns the connection string. It stays the same after a restart.
func (c *Cluster) URL() string { return at(c.socket, superuser) }

// URLAs is URL for another user of the database.
func (c *Cluster) URLAs(user string) string { return at(c.socket, user) }

// URLOf returns the connection string of a directory for processes that do not own the cluster.
func URLOf(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("naming the cluster's directory: %w", err)
	}
	return at(socketFolder(dir), superuser), nil
}

func at(socket, user string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(user),
		Path:     "/postgres",
		RawQuery: url.Values{"host": {socket}}.Encode(),
	}
	return u.String()
}

// LogFile returns the path of the server's log.
func (c *Cluster) LogFile() string { return filepath.Join(c.cfg.Dir, "postgres.log") }

// Done returns a channel that is closed when the present server process has ended, by Stop or by a
// crash.
func (c *Cluster) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.ended
}

// Mode is the way to stop a server.
type Mode syscall.Signal

const (
	// Fast ends all sessions and writes a checkpoint, so that the next start has
	// nothing to recover.
	Fast = Mode(syscall.SIGINT)
	// Immediate is a crash with tidy processes: nothing committed is lost, the
	// next start recovers.
	Immediate = Mode(syscall.SIGQUIT)
)

// fastStop limits the checkpoint of a fast shutdown. After it, a recovery at the next start is
// quicker.
const fastStop = 20 * time.Second

// Stop ends the server and lets the directory go.
func (c *Cluster) Stop(mode Mode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil
	}
	c.stopping = true
	c.server.signal(syscall.Signal(mode))
	if mode == Fast && !c.server.endsWithin(fastStop) {
		c.server.signal(syscall.SIGQUIT)
	}
	if !c.server.endsWithin(patience) {
		c.server.signal(syscall.SIGKILL)
		<-c.server.ended
	}
	if filepath.Dir(c.socket) != c.cfg.Dir {
		_ = os.RemoveAll(c.socket) // the next start makes it again
	}
	if err := unlock(c.lock); err != nil {
		return fmt.Errorf("letting go of %s: %w", c.cfg.Dir, err)
	}
	return nil
}
