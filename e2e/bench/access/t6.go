package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	sessions "github.com/gpuaas/gpuaas/product/terminal"
)

// cause ends terminals. Where is a condition on terminal_sessions, and statement is what another part of the system commits.
type cause struct {
	name             string
	reason           sessions.Reason
	where, statement string
}

// ofUsers are causes for all terminals of a user, and ofNodes those for all terminals of a node, each with the number of its id.
var (
	ofUsers = []cause{
		{"revoked key", sessions.SignedOut, "", `UPDATE api_keys SET revoked_at = now() WHERE user_id = %s`},
		{"disabled user", sessions.UserDisabled, "", `UPDATE users SET disabled_at = now() WHERE id = %s`},
		{"lost role", sessions.RightLost, "", `UPDATE project_memberships SET role = 'viewer' WHERE user_id = %s`},
		{"lost membership", sessions.RightLost, "", `DELETE FROM project_memberships WHERE user_id = %s`},
	}
	ofNodes = []cause{
		{"release", sessions.AllocationEnded, "", `UPDATE allocations SET status = 'releasing' WHERE node_id = %s`}, // also by TTL, balance and drain
		{"revoked node", sessions.NodeUnavailable, "", `UPDATE certificates SET status = 'revoked' WHERE node_id = %s`},
		{"stale node", sessions.NodeUnavailable, "", `UPDATE nodes SET reachability = 'stale' WHERE id = %s`},
		{"request of an operator", sessions.EndedByOperator, "", `UPDATE terminal_sessions SET end_wanted = 'ended_by_operator', end_by = 'bench' WHERE node_id = %s AND ended_at IS NULL`},
	}
)

// causes returns causes that end all terminals: half of the users, then most nodes, then a policy, which is no statement.
func causes(users, nodes int) (all []cause) {
	add := func(kinds []cause, n int, column, prefix string) {
		for i := range n {
			id := fmt.Sprintf("'%s%d'", prefix, lab.First+int64(i))
			c := kinds[i%len(kinds)]
			c.where, c.statement = column+" = "+id, fmt.Sprintf(c.statement, id)
			all = append(all, c)
		}
	}
	add(ofUsers, users/2, "principal", lab.UserPrefix)
	add(ofNodes, nodes-nodes/5, "node_id", lab.NodePrefix)
	return append(all, cause{"policy", sessions.RecordingRequired, "true", ""})
}

// printing is the number of seconds for which the shells print, ten times a second. It is longer than the measurement.
const printing = 600

// Ends measures the time from each cause to the last byte of the terminals that it ends, while all of them print. The terminal server
// receives no hints: it reads the causes each second.
func Ends(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(crowd, 12)
	c, err := newCrowd(ctx, l, "t6", n)
	if err != nil {
		return nil, err
	}
	defer c.end()
	clients, err := l.Part(ctx, "clients", clientsVariable, clientsParameters{Kind: byTerminal, Address: c.websockets, Count: n, Allocations: c.allocations})
	if err != nil {
		return nil, err
	}
	defer clients.End()
	for _, command := range []string{"open", "watch"} {
		if _, err := clients.Do(command); err != nil {
			return nil, err
		}
	}
	began, err := c.cause(ctx, l, n)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(l.Dir, "ends.json")
	if _, err := clients.Do("ended " + file); err != nil {
		return nil, err
	}
	took, note, err := durations(file, n, began)
	if err != nil {
		return nil, err
	}
	row := bounded("T6", fmt.Sprintf("cause to the last byte of a terminal that prints, without hints, p99 of %d ends", n), " s", lab.Quantile(took, 0.99), 2)
	row.Note = note
	return []lab.Row{row}, nil
}

// due is the cause of the end of a session, and its time.
type due struct {
	cause

	at time.Time
}

// cause makes all causes, at random times, and returns that of each session.
func (c *crew) cause(ctx context.Context, l *lab.Lab, n int) (map[string]due, error) {
	random := rand.New(rand.NewPCG(6, 6)) //nolint:gosec // a pause
	began := map[string]due{}
	for _, one := range causes((n+perUser-1)/perUser, len(c.allocations)) {
		lab.Wait(ctx, time.Duration(random.IntN(int(time.Second))))
		affected, err := lab.One[[]string](ctx, c.database, `SELECT coalesce(array_agg(id::text), '{}') FROM terminal_sessions WHERE ended_at IS NULL AND `+one.where)
		if err != nil {
			return nil, err
		}
		at := clock.Clock{}.Now()
		if one.statement == "" {
			_, err = c.server.Do("require")
		} else {
			err = l.Exec(ctx, c.database, one.statement)
		}
		if err != nil {
			return nil, err
		}
		for _, id := range affected {
			if _, earlier := began[id]; !earlier {
				began[id] = due{one, at}
			}
		}
	}
	return began, nil
}

// end is the end of a session as its client sees it.
type end struct {
	ID     string
	At     time.Time // of the last byte
	Reason sessions.Reason
}

// durations returns the seconds from the causes to the ends, and the longest of each cause.
func durations(file string, n int, began map[string]due) (took []float64, note string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, "", fmt.Errorf("reading the ends: %w", err)
	}
	var ends []end
	if err := json.Unmarshal(text, &ends); err != nil {
		return nil, "", fmt.Errorf("reading the ends: %w", err)
	}
	longest, names := map[string]float64{}, []string{}
	for _, e := range ends {
		d, found := began[e.ID]
		if !found || d.reason != e.Reason {
			return nil, "", fmt.Errorf("session %s ended with %q after %q", e.ID, e.Reason, d.name)
		}
		seconds := e.At.Sub(d.at).Seconds()
		if took = append(took, seconds); longest[d.name] == 0 {
			names = append(names, d.name)
		}
		longest[d.name] = max(longest[d.name], seconds)
	}
	if len(took) != n {
		return nil, "", fmt.Errorf("%d of %d terminals have ended", len(took), n)
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.2f", name, longest[name])
	}
	return took, "longest by cause, s: " + strings.Join(names, ", "), nil
}

// watched are the ends of the terminals of a process with clients.
type watched struct {
	all  sync.WaitGroup
	mu   sync.Mutex
	ends []end
}

// watch lets all terminals print, and reads them until they end.
func (w *watched) watch(shells []*shell) error {
	for _, s := range shells {
		if err := s.types(fmt.Sprintf("10 %d\n", printing)); err != nil {
			return err
		}
		w.all.Go(func() {
			last, err := s.readToEnd()
			var closed websocket.CloseError
			errors.As(err, &closed)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ends = append(w.ends, end{s.terminal.id, last, sessions.Reason(closed.Reason)})
		})
	}
	return nil
}

// readToEnd reads to the end, and returns the time of the last byte.
func (s *shell) readToEnd() (last time.Time, err error) {
	p := make([]byte, 4<<10)
	for {
		n, err := s.Read(p)
		if n > 0 {
			last = clock.Clock{}.Now()
		}
		if err != nil {
			return last, err
		}
	}
}

// save waits for all ends and writes them to a file.
func (w *watched) save(file string) error {
	w.all.Wait()
	text, err := json.Marshal(w.ends)
	if err != nil {
		return fmt.Errorf("encoding the ends: %w", err)
	}
	return os.WriteFile(file, text, 0o600)
}
