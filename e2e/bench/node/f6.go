package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/linux"
	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
)

const (
	tenantVariable = "GPUAAS_BENCH_TENANT"
	// The tenants of F6, with a uid that no node gives.
	tenantsOfNode, firstTenant = 64, 1_900_000_000
	descriptorsOfNode          = 500_000
	// inspections before and after the tenants start.
	inspections = 15
)

// InspectHost measures an inspection of the host OS of a node with tenants with many descriptors. The programs of the
// host OS are children that print what the real ones print; processes, control groups and accounts are real files.
func InspectHost(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("only root starts processes of other users")
	}
	empty, err := inspectedHost(l, 0)
	if err != nil {
		return nil, err
	}
	tenants := tenantsOfNode
	if l.Smoke {
		tenants /= 16
	}
	full, err := inspectedHost(l, tenants)
	if err != nil {
		return nil, err
	}
	without, err := inspectTimes(ctx, l, empty)
	if err != nil {
		return nil, err
	}
	quiet, err := inspectTimes(ctx, l, full)
	if err != nil {
		return nil, err
	}
	descriptors := max(int(descriptorsOfNode*l.Scale), tenants)
	end, err := startTenants(ctx, l, tenants, descriptors/tenants)
	defer end()
	if err != nil {
		return nil, err
	}
	loaded, err := inspectTimes(ctx, l, full)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%d tenants, a process each, %d descriptors", tenants, descriptors)
	return []lab.Row{
		compared("F6", "node inspection with 64 tenants and 500,000 descriptors / with their accounts only", loaded, quiet, note).AtMost(1.5),
		compared("F6-empty", "the same / on a node without tenants, where systemctl does not run", loaded, without, ""),
	}, nil
}

func compared(id, path string, ours, peer []float64, note string) lab.Row {
	r := lab.Row{ID: id, Path: path, Unit: " ms", Ours: 1000 * lab.Median(ours), Peer: 1000 * lab.Median(peer), Note: note}
	r.Ratio = r.Ours / r.Peer
	r.Min, r.Max = lab.Quantile(ours, 0.25)/lab.Quantile(peer, 0.75), lab.Quantile(ours, 0.75)/lab.Quantile(peer, 0.25)
	return r
}

// inspectedHost is a host OS with the processes and control groups of this computer and its own accounts.
func inspectedHost(l *lab.Lab, tenants int) (*linux.Host, error) {
	root := filepath.Join(l.Dir, fmt.Sprintf("host-%d", tenants))
	var accounts, slices strings.Builder
	for i := range tenants {
		fmt.Fprintf(&accounts, "u%d:x:%[1]d:%[1]d::/home/u%[1]d:/bin/bash\n", firstTenant+i)
		fmt.Fprintf(&slices, "Id=user-%d.slice\nDevicePolicy=closed\nDeviceAllow=char-pts rw\nCPUWeight=100\nMemoryMax=1073741824\nMemorySwapMax=0\nTasksMax=4096\n\n", firstTenant+i)
	}
	state := filepath.Join(root, "sim")
	if _, err := sim.Open(state, ids.New[ids.Node](), "h100-8", "bench"); err != nil {
		return nil, err
	}
	hardware, err := sim.Read(sim.Path(state))
	if err != nil {
		return nil, err
	}
	cards, err := hardware.SMI()
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"etc/passwd": "root:x:0:0::/root:/bin/bash\n" + accounts.String(), "etc/group": "root:x:0:\n", "systemctl": slices.String(), "nvidia-smi": cards} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755), os.WriteFile(filepath.Join(root, name), []byte(text), 0o600)); err != nil { //nolint:gosec // as on a host
			return nil, fmt.Errorf("making a node: %w", err)
		}
	}
	for _, dir := range []string{"proc", "sys"} {
		if err := os.Symlink("/"+dir, filepath.Join(root, dir)); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("making a node: %w", err)
		}
	}
	h := &linux.Host{OS: hostos.OS{Root: root}, Log: slog.New(slog.DiscardHandler)}
	h.Run = func(ctx context.Context, path string, stdin []byte, _ ...string) ([]byte, error) {
		return hostos.Child(ctx, "/bin/cat", stdin, filepath.Join(root, filepath.Base(path)))
	}
	return h, nil
}

// inspectTimes returns the seconds of each inspection. The list of the driver is read again each time.
func inspectTimes(ctx context.Context, l *lab.Lab, h *linux.Host) (times []float64, err error) {
	n := inspections
	if l.Smoke {
		n = 1
	}
	var now time.Duration // a clock that passes the time for which the list of the driver is cached
	h.Clock = clock.At(func() time.Time { now += time.Minute; return time.Unix(0, 0).Add(now) })
	for range n {
		began := clock.Clock{}.Now()
		if _, err := h.Inspect(ctx); err != nil {
			return nil, err
		}
		times = append(times, clock.Clock{}.Now().Sub(began).Seconds())
	}
	return times, nil
}

// startTenants starts a process for each tenant and returns when all have their descriptors.
func startTenants(ctx context.Context, l *lab.Lab, tenants, each int) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var started []*exec.Cmd
	var inputs []io.Closer
	end = func() {
		for _, in := range inputs {
			_ = in.Close() // the process ends with its input
		}
		for _, c := range started {
			_ = c.Wait()
		}
		cancel()
	}
	for i := range tenants {
		cmd, err := l.ChildCommand(ctx, "tenant", fmt.Sprintf("%s=%d %d", tenantVariable, firstTenant+i, each))
		if err != nil {
			return end, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return end, fmt.Errorf("starting a tenant: %w", err)
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			return end, fmt.Errorf("starting a tenant: %w", err)
		}
		if err := cmd.Start(); err != nil {
			return end, fmt.Errorf("starting a tenant: %w", err)
		}
		started, inputs = append(started, cmd), append(inputs, in)
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			return end, fmt.Errorf("starting a tenant: %q: %w", line, err)
		}
	}
	return end, nil
}

// TenantProcess opens descriptors as a tenant until its input ends.
func TenantProcess(context.Context) error {
	var uid, descriptors int
	if _, err := fmt.Sscan(os.Getenv(tenantVariable), &uid, &descriptors); err != nil {
		return fmt.Errorf("reading %s: %w", tenantVariable, err)
	}
	limit := unix.Rlimit{Cur: uint64(descriptors) + 100, Max: uint64(descriptors) + 100} //nolint:gosec // a few thousand
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raising the limit: %w", err)
	}
	first, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	for range descriptors {
		if err == nil {
			_, err = unix.Dup(first)
		}
	}
	if err == nil {
		err = unix.Setresuid(uid, uid, uid)
	}
	if err != nil {
		return fmt.Errorf("becoming a tenant: %w", err)
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}
