//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
)

// openedSession is one end of a terminal or of a stream of SSH. Closed is closed when the server has ended it; reason is valid then.
type openedSession struct {
	id       uuid.UUID
	conn     *websocket.Conn
	shell    bool
	received *atomic.Int64
	reason   *string // of the end
	closed   chan struct{}
}

// enter opens a session, and waits for its first bytes.
func (h *installation) enter(t *testing.T, a allocation, purpose string) (s openedSession, err error) {
	t.Helper()
	var made struct{ Token, URL string }
	if _, err = h.call("POST", "/api/v1/allocations/"+a.ID+"/terminal-token", "", map[string]string{"purpose": purpose}, &made); err != nil {
		return s, err
	}
	if h.terminals != "" {
		u, err := url.Parse(made.URL)
		must(t, err)
		u.Host = h.terminals
		made.URL = u.String()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	protocol := map[string]string{"shell": "gpuaas.terminal.v1", "ssh": "gpuaas.ssh.v1"}[purpose]
	s.conn, _, err = websocket.Dial(ctx, made.URL, &websocket.DialOptions{
		Subprotocols: []string{protocol, "gpuaas.bearer." + base64.RawURLEncoding.EncodeToString([]byte(made.Token))},
	})
	if err != nil {
		return s, err
	}
	for kind := websocket.MessageText; kind != websocket.MessageBinary; {
		var text []byte
		if kind, text, err = s.conn.Read(ctx); err != nil {
			return s, errors.Join(err, s.conn.CloseNow())
		}
		var said struct{ ID uuid.UUID }
		if kind == websocket.MessageText && decode(string(text), &said) == nil && said.ID != uuid.Nil {
			s.id = said.ID
		}
	}
	s.shell, s.received, s.reason, s.closed = purpose == "shell", &atomic.Int64{}, new(string), make(chan struct{})
	go func() {
		defer close(s.closed)
		for {
			_, p, err := s.conn.Read(context.Background())
			var end websocket.CloseError
			if errors.As(err, &end) {
				*s.reason = end.Reason
			}
			if err != nil {
				return
			}
			s.received.Add(int64(len(p)))
		}
	}()
	return s, nil
}

// respond requires that the node responds in each session. It can be called once: after its version, sshd sends its algorithms.
func respond(t *testing.T, sessions []openedSession) {
	t.Helper()
	for i, s := range sessions {
		before, text := s.received.Load(), "SSH-2.0-e2e\r\n"
		if s.shell {
			text = "echo alive\n"
		}
		must(t, s.conn.Write(t.Context(), websocket.MessageBinary, []byte(text)))
		until(t, patience, fmt.Sprintf("session %d responds", i), func() error {
			if s.received.Load() == before {
				return errors.New("nothing was received")
			}
			return nil
		})
	}
}

// enterAll opens sessions, half of them terminals and half streams of SSH. An agent that has just started polls later.
func (h *installation) enterAll(t *testing.T, all []allocation, n int) (sessions []openedSession) {
	t.Helper()
	for i := range n {
		purpose := []string{"shell", "ssh"}[i%2]
		if !until(t, patience, fmt.Sprintf("session %d opens", i), func() error {
			s, err := h.enter(t, all[i%len(all)], purpose)
			if err != nil {
				t.Logf("session %d: %v", i, err)
				time.Sleep(time.Second) // a user may create few tokens in a second
				return err
			}
			sessions = append(sessions, s)
			return nil
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
			(SELECT count(*) FROM terminal_sessions WHERE ended_at IS NULL), (SELECT count(*) FROM terminal_tokens WHERE expires_at > now()),
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

// sleeps starts a command over gpuaas ssh, and returns when it runs. client waits for its end, and returns what it has printed.
func (h *installation) sleeps(t *testing.T, a allocation) (client func() string) {
	t.Helper()
	path := h.path("client.log")
	log, err := os.Create(path)
	must(t, err)
	defer log.Close()
	cmd := exec.Command(filepath.Join(bins, "gpuaas"), "ssh", a.Name, "--", "echo started; exec sleep 600")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.repo, h.own(), log, log
	ended := launch(t, cmd)
	if !until(t, patience, "the command runs", func() error {
		if text := tail(path, 10); !strings.Contains(text, "started") {
			return errors.New(text)
		}
		return nil
	}) {
		t.FailNow()
	}
	return func() string {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("the client of SSH runs")
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		return tail(path, 10)
	}
}

// TestKilledUnderTerminals kills the agents, and then the server, under twenty sessions. The sessions end, new ones open, and
// neither rows nor sockets remain.
func TestKilledUnderTerminals(t *testing.T) {
	t.Parallel()
	h := newInstallation(t, "--agents=processes")
	h.unlimited(t)
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

	status := h.cli("ssh", all[0].Name, "--", "exit 3")
	if status.code != 3 {
		t.Errorf("the status of a command is %d: %s%s", status.code, status.out, status.err)
	}
	sessions := h.enterAll(t, all, 19)
	client := h.sleeps(t, all[2])
	for _, node := range []string{"gpu-t4-01", "gpu-t4-02", "gpu-t4-03"} {
		h.shoot(t, node, 0)
	}
	ended(t, sessions, "the end of the agents")
	for i, s := range sessions {
		if *s.reason != "stream_lost" {
			t.Errorf("session %d ended with %q", i, *s.reason)
		}
	}
	if out := client(); !strings.Contains(out, "the connection to the node ended") {
		t.Errorf("the client of SSH prints %q", out)
	}
	h.noRows(t, "the end of the agents")
	if found := queryOne[string](t, h, `SELECT string_agg(DISTINCT end_reason, ' ' ORDER BY end_reason) FROM terminal_sessions`); found != "closed exited stream_lost" {
		t.Errorf("the reasons of ends are %s", found)
	}
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
