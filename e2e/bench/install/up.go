// Package install measures starts and the memory of a complete installation.
package install

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// starts is the number of measured warm starts.
const starts = 5

// installation is one `gpuaas up` with its own folders.
type installation struct {
	binary, dir, home string
	log               *os.File
}

func newInstallation(ctx context.Context, l *lab.Lab, name string) (*installation, error) {
	binary, err := l.Gpuaas(ctx)
	if err != nil {
		return nil, err
	}
	home := filepath.Join(l.Dir, name)
	if err := os.MkdirAll(home, 0o755); err != nil { //nolint:gosec // the database's user passes through
		return nil, fmt.Errorf("making a home: %w", err)
	}
	log, err := os.Create(filepath.Join(home, "up.log"))
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	return &installation{binary: binary, dir: filepath.Join(home, "data"), home: home, log: log}, nil
}

func (i *installation) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, i.binary, args...) //nolint:gosec // our own binary
	cmd.Dir = i.home                                   // outside of any checkout: the fleet that came with the binary
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+i.home, "GPUAAS_NO_INPUT=1")
	lab.Gentle(cmd)
	return cmd
}

// running is an installation that has reported that it is ready.
type running struct {
	*installation

	cmd   *exec.Cmd
	took  time.Duration
	ready struct {
		URL string `json:"url"`
	}
	end context.CancelFunc
}

func (i *installation) up(ctx context.Context, args ...string) (*running, error) {
	ready := filepath.Join(i.home, "ready.json")
	_ = os.Remove(ready) // of a start that was cut short
	ctx, end := context.WithCancel(ctx)
	r := &running{installation: i, end: end}
	r.cmd = i.command(ctx, append([]string{
		"up", "--headless", "--data-dir", i.dir, "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0",
		"--metrics-listen", "127.0.0.1:0", "--issuer-listen", "127.0.0.1:0", "--payments-listen", "127.0.0.1:0", "--mail-listen", "127.0.0.1:0", "--ready-file", ready,
	}, args...)...)
	r.cmd.Stdout, r.cmd.Stderr = i.log, i.log
	began := clock.Clock{}.Now()
	if err := r.cmd.Start(); err != nil {
		end()
		return nil, fmt.Errorf("starting gpuaas up: %w", err)
	}
	for {
		if text, err := os.ReadFile(ready); err == nil && json.Unmarshal(text, &r.ready) == nil {
			r.took = clock.Clock{}.Now().Sub(began)
			return r, nil
		}
		if (clock.Clock{}).Now().Sub(began) > 4*lab.Patience || ctx.Err() != nil {
			r.stop()
			said, _ := os.ReadFile(i.log.Name())
			return nil, fmt.Errorf("gpuaas up was not ready: %s", said)
		}
		lab.Wait(ctx, lab.Poll)
	}
}

func (r *running) stop() {
	r.end()
	_ = r.cmd.Wait() // it was ordered to end
}

// memory returns the memory of the installation in MiB, without PostgreSQL.
func (r *running) memory() (sum float64) {
	for _, pid := range lab.Family(r.cmd.Process.Pid) {
		if s, ok := lab.StatOf(pid); ok && s.Name != "postgres" {
			sum += lab.Resident(pid)
		}
	}
	return sum
}

// count runs a query on the database of the installation.
func (r *running) count(ctx context.Context, sql string) (int, error) {
	return lab.One[int](ctx, r.database(), sql)
}

func (r *running) database() string {
	return "postgres://gpuaas@/postgres?host=" + filepath.Join(r.dir, "postgres", "run")
}

// WarmStart measures `gpuaas up` on existing data.
func WarmStart(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	i, err := newInstallation(ctx, l, "warm")
	if err != nil {
		return nil, err
	}
	var took []float64
	for n := range max(min(starts, l.Scaled(starts*20, 1)), 1) + 1 {
		r, err := i.up(ctx)
		if err != nil {
			return nil, err
		}
		r.stop()
		if n > 0 {
			took = append(took, r.took.Seconds())
		} else {
			l.Say("U1: the first start on an empty folder took %s", r.took.Round(time.Millisecond))
		}
	}
	r := lab.Row{ID: "U1", Path: "gpuaas up on existing data, ready", Unit: " s", Ours: lab.Median(took), Peer: 3, Goal: "≤ 3 s"}
	r.Ratio, r.Min, r.Max = r.Ours/3, lab.Quantile(took, 0)/3, lab.Quantile(took, 1)/3
	r.Met = new(r.Ours <= 3)
	return []lab.Row{r}, nil
}

// SmallInstallation measures the memory of all released processes with the development fleet and
// one active allocation.
func SmallInstallation(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	i, err := newInstallation(ctx, l, "small")
	if err != nil {
		return nil, err
	}
	r, err := i.up(ctx)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	if out, err := i.command(ctx, "alloc", "create", "--sku", "h100-sxm", "--name", "first", "--wait", "--timeout", "1m", "--yes").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("alloc create: %w: %s", err, out)
	}
	const limit = 250
	mib := r.memory()
	return []lab.Row{{
		ID: "U2", Path: "all roles, 3 simulated nodes, one allocation: resident, PostgreSQL apart", Unit: " MB", Ours: mib, Peer: limit,
		Ratio: mib / limit, Min: mib / limit, Max: mib / limit, Goal: "≤ 250 MB", Met: new(mib <= limit),
	}}, nil
}

// crowd is the number of simulated nodes of a large installation.
const crowd = 1000

// LargeInstallation measures the memory of a thousand simulated nodes. The row has no goal.
func LargeInstallation(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(crowd, 20)
	i, err := newInstallation(ctx, l, "large")
	if err != nil {
		return nil, err
	}
	began := clock.Clock{}.Now()
	r, err := i.up(ctx, "--sim-nodes", strconv.Itoa(n))
	if err != nil {
		return nil, err
	}
	defer r.stop()
	for {
		active, err := r.count(ctx, `SELECT count(*) FROM nodes WHERE lifecycle = 'active'`)
		switch {
		case err != nil:
			return nil, err
		case active >= n:
			took, mib := clock.Clock{}.Now().Sub(began).Seconds(), r.memory()
			return []lab.Row{
				{ID: "U3", Path: fmt.Sprintf("%d simulated nodes, from nothing to all active", n), Unit: " s", Ours: took, Goal: "reported"},
				{ID: "U3-rss", Path: "the same: resident, PostgreSQL apart", Unit: " MB", Ours: mib, Goal: "reported", Note: fmt.Sprintf("%.0f KB a node", mib*1024/float64(n))},
			}, nil
		case (clock.Clock{}).Now().Sub(began) > 10*lab.Patience:
			return nil, fmt.Errorf("%d of %d nodes are active after %s", active, n, 10*lab.Patience)
		}
		lab.Wait(ctx, 20*lab.Poll)
	}
}

// Server is a running installation that another measurement uses.
type Server struct {
	URL  string
	Stop func()

	running *running
}

// Start starts an installation with the development fleet.
func Start(ctx context.Context, l *lab.Lab, name string) (*Server, error) {
	i, err := newInstallation(ctx, l, name)
	if err != nil {
		return nil, err
	}
	r, err := i.up(ctx)
	if err != nil {
		return nil, err
	}
	return &Server{URL: r.ready.URL, Stop: r.stop, running: r}, nil
}

// Run runs a command of the CLI.
func (s *Server) Run(ctx context.Context, args ...string) error {
	_, err := s.Output(ctx, args...)
	return err
}

// Output runs a command of the CLI and returns its standard output.
func (s *Server) Output(ctx context.Context, args ...string) ([]byte, error) {
	var said bytes.Buffer
	cmd := s.running.command(ctx, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s%s", args, err, out, &said)
	}
	return out, nil
}

// AgentDir returns the state directory of the agent of the simulated node of an allocation.
func (s *Server) AgentDir(ctx context.Context, allocation string) (string, error) {
	node, err := lab.One[string](ctx, s.running.database(), "SELECT n.name FROM allocations a JOIN nodes n ON n.id = a.node_id WHERE a.id = '"+allocation+"'")
	return filepath.Join(s.running.dir, "agents", node), err
}

// Millis returns a time of the database in milliseconds since 1970.
func (s *Server) Millis(ctx context.Context, column, from string) (int, error) {
	return s.running.count(ctx, fmt.Sprintf(`SELECT (extract(epoch FROM %s) * 1000)::bigint FROM %s`, column, from))
}
