package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/natsd"
)

// A1 makes this many allocations in each run, over this many connections.
const (
	creates     = 5000
	connections = 16
)

// stalls are the numbers of the marketplace of A1. Tenants are many, because
// requests of one tenant wait for each other, on both sides.
var stalls = market{tenants: 256, nodes: 64, slotsPerNode: 128}

// grown are the tables that a create adds one row to.
var grown = []string{"idempotency_keys", "allocations", "allocation_transitions", "desired_objects", "reconcile_due", "audit_logs", "outbox_events", "slot_claims"}

// claimed are the slots that a create takes.
const claimed = "slots WHERE status = 'claimed'"

// createAllocation compares POST /api/v1/allocations, with everything on, with
// pgbench sending the very statements that the server sends.
func createAllocation(ctx context.Context, l *lab) ([]row, error) {
	n := l.scaled(creates, 10*connections) / connections * connections
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := l.stall(ctx, "a1")
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); s.stop() }()
	script, err := s.capture(ctx)
	if err != nil {
		return nil, err
	}
	piped, err := l.pgbench(ctx, s.url, "piped", script.pipelined(), n)
	if err != nil {
		return nil, err
	}
	single, err := l.pgbench(ctx, s.url, "single", script.oneByOne(), n)
	if err != nil {
		return nil, err
	}
	if err := s.sameRows(ctx, n, piped); err != nil {
		return nil, err
	}
	var rows []row
	for _, against := range []struct {
		id, path string
		peer     side
		goal     float64
	}{
		{"A1", "POST allocation, everything on / pgbench, same statements pipelined", piped, 0.8},
		{"A1-single", "the same / pgbench, same statements one by one", single, 1},
	} {
		p, err := l.alternate(ctx, leastPairs, s.reset, func(ctx context.Context) (time.Duration, error) { return s.load(ctx, n) }, against.peer)
		if err != nil {
			return nil, err
		}
		rows = append(rows, throughput(p, n, against.id, against.path).atLeast(against.goal))
	}
	rows[0].Note = fmt.Sprintf("%d creates a run over %d connections; %d statements each", n, connections, len(script))
	return rows, nil
}

// throughput says pairs as operations a second, ours being a.
func throughput(p pairs, n int, id, path string) row {
	r := pairs{a: p.b, b: p.a}.row(id, path, n)
	r.Unit, r.Ours, r.Peer = "/s", float64(n)/median(p.a), float64(n)/median(p.b)
	all := float64(n * len(p.a))
	r.CPUOurs, r.CPUPeer = p.cpuA/all, p.cpuB/all
	return r
}

// stand is the binary that ships, in the API's role.
type stand struct {
	lab     *lab
	url     string // of the database
	address string
	bus     *natsd.Server
	process *exec.Cmd
	runs    int
}

// stall is a stand over a marketplace of its own.
func (l *lab) stall(ctx context.Context, name string) (*stand, error) {
	url, err := l.database(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := stalls.open(ctx, l, url); err != nil {
		return nil, err
	}
	return l.serveAPI(ctx, name, url)
}

func (l *lab) serveAPI(ctx context.Context, name, url string) (*stand, error) {
	binary, err := l.gpuaas(ctx)
	if err != nil {
		return nil, err
	}
	bus, err := natsd.Start(natsd.Config{Dir: filepath.Join(l.dir, name+"-nats"), Listen: true, Log: l.log})
	if err != nil {
		return nil, err
	}
	free, err := freePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(l.dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("making the server's log: %w", err)
	}
	defer func() { _ = said.Close() }() // the server has its own handle
	repository, err := l.repository(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{
		"server", "--roles=api", "--repository", repository, "--listen", free[0], "--metrics-listen", free[1],
		"--state-dir", filepath.Join(l.dir, name+"-state"),
	}
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // our own binary
	cmd.Env = append(os.Environ(), "DATABASE_URL="+url, "NATS_URL="+bus.URL())
	cmd.Stdout, cmd.Stderr = said, said
	gentle(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	s := &stand{lab: l, url: url, address: free[0], bus: bus, process: cmd}
	return s, s.awake(ctx, said.Name())
}

// repository is one that declares a fleet: the server asks for it, whatever its
// roles.
func (l *lab) repository(ctx context.Context) (string, error) {
	if l.declared != "" {
		return l.declared, nil
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	root, to := strings.TrimSpace(string(out)), filepath.Join(l.dir, "repository")
	for _, args := range [][]string{
		{"mkdir", "-p", to + "/environments"},
		{"cp", "-R", root + "/environments/dev", to + "/environments/"},
		{"git", "-C", to, "init", "-q"},
		{"git", "-C", to, "add", "."},
		{"git", "-C", to, "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "fleet"},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil { //nolint:gosec // constants and our own paths
			return "", fmt.Errorf("%s: %w: %s", strings.Join(args[:1], " "), err, out)
		}
	}
	l.declared = to
	return to, nil
}

func freePorts(ctx context.Context, n int) (addresses []string, err error) {
	for range n {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a port: %w", err)
		}
		defer func() { _ = listener.Close() }() // held until all are found
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// poll is between two looks whether something has come up.
const poll = 5 * time.Millisecond

func (s *stand) awake(ctx context.Context, log string) error {
	for began := (clock.Clock{}).Now(); (clock.Clock{}).Now().Sub(began) < patience; wait(ctx, poll) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/livez", nil)
		if err != nil {
			return fmt.Errorf("asking the server: %w", err)
		}
		if answer, err := http.DefaultClient.Do(request); err == nil {
			return answer.Body.Close()
		}
	}
	said, _ := os.ReadFile(log)
	return fmt.Errorf("the server did not come up: %s", said)
}

func (s *stand) stop() {
	_ = s.process.Wait() // it was told to end
	s.bus.Stop()
}

// load sends n creates from a process of its own.
func (s *stand) load(ctx context.Context, n int) (time.Duration, error) {
	s.runs++
	return s.lab.send(ctx, loadOrder{Address: s.address, Count: n, Connections: connections, Tenants: stalls.tenants, Keys: fmt.Sprintf("run%d", s.runs)})
}

// send has a process of its own send all of an order.
func (l *lab) send(ctx context.Context, o loadOrder) (time.Duration, error) {
	done, err := l.tried(ctx, o)
	if err == nil && done.Failed > 0 {
		err = fmt.Errorf("%d of %d requests failed, such as: %s", done.Failed, o.Count, done.Such)
	}
	return done.Took, err
}

// tried is send for an order of which some may be refused.
func (l *lab) tried(ctx context.Context, o loadOrder) (done loadResult, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return done, fmt.Errorf("encoding an order: %w", err)
	}
	cmd, err := l.childCommand(ctx, "load", loadVariable+"="+string(text))
	if err != nil {
		return done, err
	}
	out, err := cmd.Output()
	if err != nil {
		return done, fmt.Errorf("sending requests: %w", err)
	}
	if err := json.Unmarshal(out, &done); err != nil {
		return done, fmt.Errorf("reading what the load came to: %w", err)
	}
	return done, nil
}

// reset empties what creates have filled and makes every slot clean.
func (s *stand) reset(ctx context.Context) error {
	return s.lab.exec(ctx, s.url, `TRUNCATE `+strings.Join(grown, ", "), `UPDATE slots SET status = 'clean' WHERE status <> 'clean'`, `VACUUM ANALYZE slots`, `CHECKPOINT`)
}

// sameRows makes sure that both sides leave the same: otherwise two different
// things would be compared.
func (s *stand) sameRows(ctx context.Context, n int, peer side) error {
	for _, do := range []side{func(ctx context.Context) (time.Duration, error) { return s.load(ctx, n) }, peer} {
		if err := s.reset(ctx); err != nil {
			return err
		}
		if _, err := do(ctx); err != nil {
			return err
		}
		counts, err := s.left(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(counts, func(count int) bool { return count != n }) {
			return fmt.Errorf("%d creates left %v rows in %v and %s", n, counts, grown, claimed)
		}
	}
	return nil
}
