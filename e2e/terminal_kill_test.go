//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// openedSession is one end of a terminal or of a stream of SSH. Closed is closed when the server has ended it.
type openedSession struct {
	conn   *websocket.Conn
	shell  bool
	closed chan struct{}
}

// enter opens a session, and waits for its first bytes.
func (h *installation) enter(t *testing.T, a allocation, purpose string) (s openedSession, err error) {
	t.Helper()
	var made struct{ Token, URL string }
	if _, err = h.call("POST", "/api/v1/allocations/"+a.ID+"/terminal-token", "", map[string]string{"purpose": purpose}, &made); err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	protocol := map[string]string{"shell": "gpuaas.terminal.v1", "ssh": "gpuaas.ssh.v1"}[purpose]
	s.conn, _, err = websocket.Dial(ctx, made.URL, &websocket.DialOptions{
		Subprotocols: []string{protocol, "gpuaas.bearer." + base64.RawURLEncoding.EncodeToString([]byte(made.Token))},
	})
	if err != nil {
		return s, err
	}
	for kind := websocket.MessageText; kind != websocket.MessageBinary; {
		if kind, _, err = s.conn.Read(ctx); err != nil {
			return s, errors.Join(err, s.conn.CloseNow())
		}
	}
	s.shell, s.closed = purpose == "shell", make(chan struct{})
	go func() {
		defer close(s.closed)
		for err := error(nil); err == nil; _, _, err = s.conn.Read(context.Background()) {
		}
	}()
	return s, nil
}

// enterAll opens sessions, half of them terminals and half streams of SSH. An agent that has just started polls later.
func (h *installation) enterAll(t *testing.T, all []allocation, n int) (sessions []openedSession) {
	t.Helper()
	for i := range n {
		purpose := []string{"shell", "ssh"}[i%2]
		if !until(t, patience, fmt.Sprintf("session %d opens", i), func() error {
			s, err := h.enter(t, all[i%len(all)], purpose)
			if err == nil {
				sessions = append(sessions, s)
			}
			return err
		}) {
			t.FailNow()
		}
	}
	return sessions
}

// leave ends sessions. A terminal that only loses its connection can be resumed, so its shell ends.
func leave(t *testing.T, sessions []openedSession) {
	t.Helper()
	for _, s := range sessions {
		if s.shell {
			must(t, s.conn.Write(t.Context(), websocket.MessageBinary, []byte("exit\n")))
		} else {
			_ = s.conn.CloseNow()
		}
	}
	ended(t, sessions, "its user has left")
}

// ended waits until the server has ended all sessions.
func ended(t *testing.T, sessions []openedSession, cause string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for _, s := range sessions {
		select {
		case <-s.closed:
		case <-deadline:
			t.Fatalf("a session is open after %s", cause)
		}
	}
}

// noRows waits until nothing of ended sessions is in the database: one server is alive.
func (h *installation) noRows(t *testing.T, cause string) {
	t.Helper()
	until(t, time.Minute, "no row remains after "+cause, func() error {
		rows := queryOne[string](t, h, `SELECT format('%s sessions, %s tokens, %s requests, %s servers',
			(SELECT count(*) FROM terminal_sessions WHERE ended_at IS NULL), (SELECT count(*) FROM terminal_tokens),
			(SELECT count(*) FROM relay_requests WHERE expires_at > now()), (SELECT count(*) FROM terminal_instances))`)
		if rows != "0 sessions, 0 tokens, 0 requests, 1 servers" {
			return errors.New(rows)
		}
		return nil
	})
}

// descriptors returns the number of sockets of a process to its clients and agents. Those to the database are Unix sockets,
// whose number depends on the pool.
func descriptors(t *testing.T, pid int) (n int) {
	t.Helper()
	tcp, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	must(t, err)
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	for _, link := range links {
		at, _ := os.Readlink(link)
		if inode, ok := strings.CutPrefix(at, "socket:["); ok && strings.Contains(string(tcp), " "+strings.TrimSuffix(inode, "]")+" ") {
			n++
		}
	}
	return n
}

// TestKilledUnderTerminals kills the agents, and then the server, under twenty sessions. The sessions end, new ones open, and
// neither rows nor sockets remain.
func TestKilledUnderTerminals(t *testing.T) {
	t.Parallel()
	h := newInstallation(t, "--agents=processes")
	h.start()
	var all []allocation
	for range 3 { // an allocation has at most eight sessions
		all = append(all, h.create(t, "t4", 1))
	}
	for _, a := range all {
		h.becomes(t, a, "active")
	}
	pid := h.up.Process.Pid
	leave(t, h.enterAll(t, all, 4))
	h.noRows(t, "the first sessions")
	before := descriptors(t, pid)

	sessions := h.enterAll(t, all, 20)
	for _, node := range []string{"gpu-t4-01", "gpu-t4-02", "gpu-t4-03"} {
		h.shoot(t, node, 0)
	}
	ended(t, sessions, "the end of the agents")
	h.noRows(t, "the end of the agents")
	leave(t, h.enterAll(t, all, 4))
	h.noRows(t, "the sessions of the new agents")
	until(t, patience, "no socket remains", func() error {
		if n := descriptors(t, pid); n > before {
			return fmt.Errorf("%d sockets, %d before", n, before)
		}
		return nil
	})

	sessions = h.enterAll(t, all, 20)
	must(t, syscall.Kill(h.up.Process.Pid, syscall.SIGKILL))
	<-h.ended
	ended(t, sessions, "the end of the server")
	h.start()
	h.noRows(t, "the end of the server")
	leave(t, h.enterAll(t, all, 4))
	h.noRows(t, "the sessions of the new server")
}
