//go:build e2e

package e2e

import (
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaas/internal/failpoint"
)

// terminalHits cause the first hit of each failpoint of terminals. The request itself fails: its server is killed.
var terminalHits = map[string]func(*testing.T, *installation, allocation, openedSession){
	"terminal.token.after_commit":       opensAnother,
	"terminal.redeem.after_commit":      opensAnother,
	"terminal.open.before_commit":       opensAnother,
	"terminal.open.after_commit":        opensAnother,
	"terminal.relay.after_request":      opensAnother,
	"terminal.end.before_audit":         exits,
	"terminal.end.after_commit":         exits,
	"terminal.request_end.after_commit": isEnded,
}

// opensAnother repeats what the server rejects: a user may open 60 sessions in a minute.
func opensAnother(t *testing.T, h *installation, a allocation, _ openedSession) {
	for end := time.Now().Add(time.Minute); !h.over() && time.Now().Before(end); time.Sleep(time.Second) {
		_, _ = h.enter(t, a, "shell")
	}
}

func exits(t *testing.T, _ *installation, _ allocation, s openedSession) {
	must(t, s.conn.Write(t.Context(), websocket.MessageBinary, []byte("exit\n")))
}

func isEnded(_ *testing.T, h *installation, _ allocation, s openedSession) {
	_, _ = h.call(http.MethodDelete, "/api/v1/terminal-sessions/"+s.id.String(), "", nil, nil)
}

// installationsOfTerminals share the failpoints of terminals. After each kill a test waits half a minute for rows to expire.
const installationsOfTerminals = 2

// TestEveryFailpointUnderTerminals kills the server at each failpoint of terminals under twenty sessions. A minute after the next
// start, no session, valid token or request for a stream remains, and sessions open.
func TestEveryFailpointUnderTerminals(t *testing.T) {
	t.Parallel()
	only := os.Getenv("E2E_POINT")
	points := slices.DeleteFunc(slices.Clone(failpoint.Points), func(p string) bool {
		return !strings.HasPrefix(p, "terminal.") || !strings.Contains(p, only)
	})
	for _, p := range points {
		if terminalHits[p] == nil {
			t.Fatalf("nothing here hits %s", p)
		}
	}
	if len(points) == 0 || len(terminalHits) != len(points) && only == "" {
		t.Fatalf("%d failpoints, %d of them are hit here", len(points), len(terminalHits))
	}
	for part := range slices.Chunk(points, (len(points)+installationsOfTerminals-1)/installationsOfTerminals) {
		t.Run("from "+part[0], func(t *testing.T) {
			t.Parallel()
			killedUnderTerminals(t, part)
		})
	}
}

// killedUnderTerminals kills one installation at each point.
func killedUnderTerminals(t *testing.T, points []string) {
	t.Helper()
	h := newInstallation(t, "--agents=processes")
	h.declare(t, "token", "terminal.token_ttl_seconds", 30)
	h.unlimited(t)
	var all []allocation
	for _, point := range points {
		gate, hits := h.path(point+".gate"), h.path(point+".hits")
		h.start("GPUAAS_FAILPOINT="+point, "GPUAAS_FAILPOINT_LOG="+hits, "GPUAAS_FAILPOINT_GATE="+gate)
		for len(all) < 3 { // an allocation has at most eight sessions
			a := h.create(t, "t4", 1)
			h.becomes(t, a, "active")
			all = append(all, a)
		}
		h.noRows(t, "the kill before "+point)
		sessions := h.enterAll(t, all, 20)
		must(t, os.WriteFile(gate, nil, 0o600))
		terminalHits[point](t, h, all[2], sessions[0])
		if !until(t, patience, point+" kills", func() error {
			if text, err := os.ReadFile(hits); err != nil || string(text) != point+"\n" || !h.over() {
				return errors.Join(err, errors.New("the hits are: "+string(text)))
			}
			return nil
		}) {
			t.FailNow()
		}
		ended(t, sessions, point)
	}
	h.start()
	h.noRows(t, "the last kill")
	leave(t, h.enterAll(t, all, 4))
	h.noRows(t, "the last sessions")
	if n := queryOne[int](t, h, `SELECT count(*) FROM terminal_sessions s WHERE NOT EXISTS (SELECT FROM audit_logs a WHERE a.action = 'terminal.end' AND a.target_urn LIKE '%' || s.id)`); n != 0 {
		t.Errorf("%d sessions have ended without an audit row", n)
	}
}
