package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/protocol"
)

// RunHelper runs the helper behind its socket until ctx ends.
func RunHelper(ctx context.Context, c Config) error {
	if c.Socket == "" || c.StateDir == "" || c.Log == nil {
		return errors.New("agent: the helper needs a socket, a state directory and a logger")
	}
	lock, err := lockStateDir(c.journalDir())
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // which also unlocks
	belief, err := helper.LoadTrustState(c.journalDir())
	if err != nil {
		return err
	}
	keys := &storagekey.Store{}
	d, host, err := c.open(ctx, belief.Node, keys)
	if err != nil {
		return err
	}
	server := &helper.Server{UID: c.PeerUID, Log: c.Log}
	var local *helper.Local
	options := helper.Options{
		Dir: c.journalDir(), Anchor: c.Anchor, Driver: d, Host: host, Hostname: c.Hostname, Version: c.Version,
		StorageKeys: keys, Notes: server.Notes(), Log: c.Log.With("node", belief.Node), Clock: c.Clock,
	}
	options.Devices, _ = d.(task.Devices) // nil if the driver cannot operate devices
	c.replacing(&options, func() map[string][]byte { return local.ReleaseKeys() })
	if local, err = helper.Open(ctx, options); err != nil {
		return err
	}
	server.Local = local
	l, err := listen(c)
	if err != nil {
		return err
	}
	local.Start(ctx)
	c.notify("READY=1")
	var beats sync.WaitGroup
	beats.Go(func() { c.watch(ctx, local.Alive, local.Beat) })
	err = server.Serve(ctx, l)
	c.notify("STOPPING=1")
	beats.Wait()
	local.Wait()
	return err
}

// listen creates the socket, which only root and the network process can open.
func listen(c Config) (*net.UnixListener, error) {
	// The lock proves that no other helper lives: this is what a dead one left.
	if err := os.Remove(c.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing the helper's old socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: c.Socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("making the helper's socket: %w", err)
	}
	if err := errors.Join(os.Chmod(c.Socket, 0o660), os.Chown(c.Socket, os.Getuid(), c.PeerGID)); err != nil {
		return nil, errors.Join(fmt.Errorf("giving the socket to the agent's group: %w", err), l.Close())
	}
	return l, nil
}

// watch calls beat at an interval, and notifies the watchdog while alive returns nil. systemd restarts a
// process that is stuck, and the process resumes from its journal.
func (c Config) watch(ctx context.Context, alive func() error, beat func(context.Context)) {
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	every, last := watchdogEvery(os.Getenv), time.Time{}
	for {
		beat(ctx)
		if now := c.Clock.Now(); every > 0 && now.Sub(last) >= every {
			last = now
			if err := alive(); err != nil {
				c.Log.ErrorContext(ctx, "stuck; the watchdog is not notified", "err", err)
			} else {
				c.notify("WATCHDOG=1")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// RunNetwork runs the network process until ctx ends.
func RunNetwork(ctx context.Context, c Config) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Socket == "" {
		return errors.New("agent: the helper's socket is needed")
	}
	lock, err := lockStateDir(c.identityDir())
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // which also unlocks
	n := newNode(c)
	client := &helper.Client{Path: c.Socket, UID: c.HelperUID, Log: c.Log, Notes: n.notes(), Met: n.met}
	n.worker, n.record = client, newStatusRecord()
	n.proofKey = func() (ed25519.PublicKey, error) {
		hello, ok := client.Hello()
		if !ok {
			return nil, helper.ErrAway
		}
		return hello.ProofKey, nil
	}
	var linked sync.WaitGroup
	defer linked.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.serveStatus(ctx, &linked, n, client); err != nil {
		return err
	}
	// The outbox starts after the node has its identity, because the notes of the helper are sent
	// under it.
	if _, found, err := n.load(); err != nil {
		return err
	} else if !found {
		return helper.ErrNotEnrolled
	}
	linked.Go(func() { client.Run(ctx) })
	c.notify("READY=1")
	linked.Go(func() { c.watch(ctx, n.alive, n.heartbeatIfEnrolled) })
	if _, _, err := n.identify(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	n.log = c.Log.With("node", n.id())
	n.poll(ctx)
	n.streams.Wait()
	n.drainOutbox()
	c.notify("STOPPING=1")
	return nil
}

// met hands a helper that was just reached what the control plane last stated.
func (n *node) met(ctx context.Context, _ helper.Hello) {
	if err := n.updateTrust(ctx); err != nil {
		n.log.WarnContext(ctx, "trust statement rejected by the helper", "err", err)
	}
}

// heartbeatIfEnrolled waits with all work until the node has a certificate.
func (n *node) heartbeatIfEnrolled(ctx context.Context) {
	if n.client.Load() != nil {
		n.beat(ctx)
	}
}

// pollTimeout is longer than a poll and its failures last.
const pollTimeout = protocol.WaitFor + time.Minute

// alive returns the reason why this process is stuck, or nil.
func (n *node) alive() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if quiet := n.Clock.Now().Sub(n.polledAt); !n.polledAt.IsZero() && !n.cut && quiet > pollTimeout {
		return fmt.Errorf("no poll has begun or ended for %s", quiet)
	}
	return nil
}

// Files of a node with two processes.
const (
	DefaultStateDir = "/var/lib/gpuaas"
	DefaultRunDir   = "/run/gpuaas-agent"
	socketName      = "helper.sock"
	anchorName      = "journal.anchor"
	sshdName        = "sshd.sock"
)

// SocketIn returns the path of the socket of the helper.
func SocketIn(runDir string) string { return filepath.Join(runDir, socketName) }

// AnchorIn returns the path of the journal's anchor.
func AnchorIn(runDir string) string { return filepath.Join(runDir, anchorName) }

// SSHDIn returns the path of the socket through which systemd connects the helper to sshd.
func SSHDIn(runDir string) string { return filepath.Join(runDir, sshdName) }
