package up

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/version"
)

const onboardingSimulated = "simulated"

// simulated lists the declared nodes that have no hardware, by name.
func (i *installation) simulated() (names []string, specs map[string]desired.Node) {
	specs = map[string]desired.Node{}
	for _, o := range i.objects {
		var n desired.Node
		if o.Kind == desired.KindNode && json.Unmarshal(o.Spec, &n) == nil && n.Onboarding == onboardingSimulated {
			specs[o.Name] = n
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return names, specs
}

// generated returns the nodes that --sim-nodes requires beyond the configured fleet, with the same
// kinds in turn.
func (i *installation) generated() []desired.Object {
	names, specs := i.simulated()
	var more []desired.Object
	for n := len(names); n < i.cfg.SimNodes && len(names) > 0; n++ {
		like := specs[names[n%len(names)]]
		spec, err := json.Marshal(like)
		if err != nil {
			continue // it came from JSON
		}
		more = append(more, desired.Object{
			Kind: desired.KindNode, Name: fmt.Sprintf("sim-%05d", n), Spec: spec,
			Source: desired.Source{Owner: desired.OwnerGit, Path: "--sim-nodes", Line: 1, Column: 1},
		})
	}
	return more
}

// fleet contains the agents that run in addition to the server.
type fleet struct {
	nodes int
	ended chan error
	stop  func()
}

// followEvery is the interval at which the fleet checks for nodes that were declared later.
const followEvery = 2 * time.Second

// startFleet starts an agent for each simulated node, and for each that is declared later, by a commit or through the
// API.
func (i *installation) startFleet(ctx context.Context) (*fleet, error) {
	started := map[ids.Object]bool{}
	configs, err := i.missingAgents(ctx, started)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &fleet{nodes: len(configs), ended: make(chan error, 1)}
	var wait sync.WaitGroup
	f.stop = func() { cancel(); wait.Wait() }
	run := func(configs []agent.Config) error { //nolint:unparam // as the one below
		i.startShells(running, &wait, configs)
		wait.Go(func() {
			if err := agent.RunFleet(running, configs); err != nil {
				f.fail(err)
			}
		})
		return nil
	}
	if i.cfg.Processes {
		binary, err := agentBinary()
		if err != nil {
			return nil, err
		}
		run = func(configs []agent.Config) error {
			i.startShells(running, &wait, configs)
			for _, c := range configs {
				if err := i.prepareProcess(running, c); err != nil {
					return err
				}
				wait.Go(func() { i.superviseAgent(running, binary, c) })
			}
			return nil
		}
	}
	if err := run(configs); err != nil {
		f.stop()
		return nil, err
	}
	wait.Go(func() { i.followFleet(running, started, run) })
	return f, nil
}

// fail reports the first error of an agent.
func (f *fleet) fail(err error) {
	select {
	case f.ended <- err:
	default:
	}
}

// followFleet starts the agents of nodes that are declared later, until ctx ends.
func (i *installation) followFleet(ctx context.Context, started map[ids.Object]bool, run func([]agent.Config) error) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		configs, err := i.missingAgents(ctx, started)
		if err == nil && len(configs) > 0 {
			err = run(configs)
		}
		if err != nil && ctx.Err() == nil {
			i.cfg.Log.WarnContext(ctx, "simulated nodes not started", "component", "up", "err", err)
		}
	}
}

// missingAgents returns the configurations of the simulated nodes without an agent, and adds them to started.
func (i *installation) missingAgents(ctx context.Context, started map[ids.Object]bool) (configs []agent.Config, err error) {
	declared, err := i.desiredNodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range declared {
		var n desired.Node
		if err := json.Unmarshal(o.Spec, &n); err != nil {
			return nil, fmt.Errorf("reading node %s: %w", o.Name, err)
		}
		if n.Onboarding == onboardingSimulated && !started[o.UID] && o.DeletedAt == nil && (i.cfg.SimNodes < 0 || len(started) < i.cfg.SimNodes) {
			started[o.UID] = true
			configs = append(configs, i.agent(o, n))
		}
	}
	return configs, nil
}

func (i *installation) agent(o desired.Object, n desired.Node) agent.Config {
	id := ids.Node{UUID: o.UID.UUID}
	return agent.Config{
		Server: i.server.NodeURL(), StateDir: i.agentDir(o.Name), CA: i.server.CA(),
		Token:  func(ctx context.Context) (string, error) { return i.token(ctx, id) },
		Driver: agent.DriverSim, Profile: n.Hardware, Hostname: o.Name, Version: version.Version,
		Log: i.cfg.Log.With("node", o.Name),
	}
}

func (i *installation) agentDir(name string) string {
	return filepath.Join(i.cfg.Dir, "agents", name)
}

// tokenPause is the polling interval for the row of a new node, which is created within
// milliseconds.
const tokenPause = 20 * time.Millisecond

// token waits until the node's object was applied. The simulated node may exist before.
func (i *installation) token(ctx context.Context, id ids.Node) (string, error) {
	for {
		token, err := i.enrolmentToken(ctx, id)
		if errs.CodeOf(err) != errs.NotFound {
			return token, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(tokenPause):
		}
	}
}

// prepareProcess writes the files that an operator would create for an agent.
func (i *installation) prepareProcess(ctx context.Context, c agent.Config) error {
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return fmt.Errorf("making %s: %w", c.StateDir, err)
	}
	if err := os.WriteFile(filepath.Join(c.StateDir, "ca.pem"), c.CA, 0o600); err != nil {
		return fmt.Errorf("writing the CA: %w", err)
	}
	if _, err := os.Stat(filepath.Join(c.StateDir, "identity", "identity.json")); err == nil {
		return nil
	}
	token, err := c.Token(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.StateDir, "token"), []byte(token), 0o600); err != nil {
		return fmt.Errorf("writing the token: %w", err)
	}
	return nil
}

// restartPause corresponds to systemd's RestartSec.
const restartPause = 200 * time.Millisecond

// superviseAgent starts an agent again whenever it ends, as its unit would.
func (i *installation) superviseAgent(ctx context.Context, binary string, c agent.Config) {
	runtime.LockOSThread() // see endsWithUs
	defer runtime.UnlockOSThread()
	for ctx.Err() == nil {
		//nolint:gosec // our own binary, with our own arguments
		cmd := exec.CommandContext(ctx, binary, "run", "--server", c.Server, "--state-dir", c.StateDir, "--driver", c.Driver,
			"--profile", c.Profile, "--hostname", c.Hostname, "--ca-file", filepath.Join(c.StateDir, "ca.pem"),
			"--token-file", filepath.Join(c.StateDir, "token"))
		cmd.SysProcAttr = endsWithUs()
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = stopWithin
		cmd.Stderr = os.Stderr
		err := cmd.Run()
		if ctx.Err() == nil {
			i.cfg.Log.WarnContext(ctx, "agent ended and is started again", "component", "up", "node", c.Hostname, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(restartPause):
		}
	}
}

// agentBinary returns the agent's path in the folder of this binary.
func agentBinary() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this binary: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), "gpuaas-agent")
	if _, err := os.Stat(path); err != nil {
		return "", errs.New(errs.Unavailable, "%s is missing", path).Try("run make build, or use --agents=shared").Because(err)
	}
	return path, nil
}

// kinds sums a fleet up for people: "3 nodes: 8 × h100, 4 × t4".
func kinds(list []desired.Object) string {
	count := map[string]int{}
	for _, o := range list {
		var n desired.Node
		if json.Unmarshal(o.Spec, &n) == nil {
			count[n.SKU] += n.GPUs
		}
	}
	var parts []string
	for sku, gpus := range count {
		parts = append(parts, fmt.Sprintf("%d × %s", gpus, sku))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
