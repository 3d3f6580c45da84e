// Package rig boots real Debian hosts on this machine: systemd, logind, sshd and
// cgroup-v2 device control, each in a container of its own, in about a second. The
// agent's tests run on them, and whole stories with a server outside.
//
// A host has no GPU. Its device nodes have no driver behind them, so that an open
// that is allowed gives ENXIO and one that is refused EPERM: isolation can be seen
// without a GPU, what happens on one cannot. Nothing here is part of the product.
package rig

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Options say what a host is like. The zero value is a host without GPUs.
type Options struct {
	Hostname string
	// Profile is the simulated hardware that the double of nvidia-smi shows, and
	// as many device nodes are made: l40s-4, t4-4, a100-8, h100-8. Empty: none.
	Profile string
	// DevicesAfter is how long after the rest of the host its devices are there: a
	// real driver takes its time, too.
	DevicesAfter time.Duration
}

// Host is one booted host. It may be killed and booted again on the same disk.
type Host struct {
	Options

	slot slot
	root string // the root file system, shared and never written
	mu   sync.Mutex
	run  *running // nil while it is off
}

// New boots a host that ends with the test, however the test ends. Without root, or
// the tools, or a root file system, the test is skipped and says why; with
// GPUAAS_RIG=required it fails instead.
func New(t testing.TB, o Options) *Host {
	t.Helper()
	Needed(t)
	h, err := Make(t.Context(), o)
	if err == nil {
		t.Cleanup(func() { must(t, h.Close()) })
		err = h.Boot(t.Context())
	}
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the console of %s:\n%s", h.slot.name(), h.console())
			h.hold(t)
		}
	})
	return h
}

// hold keeps the host of a test that failed, for GPUAAS_RIG_HOLD, so that somebody
// can enter it and look.
func (h *Host) hold(t testing.TB) {
	t.Helper()
	d, err := time.ParseDuration(os.Getenv("GPUAAS_RIG_HOLD"))
	if h.run == nil || err != nil {
		return
	}
	fmt.Fprintf(os.Stderr, "%s failed; for %s its host is entered by: nsenter -t %d -a bash\n", t.Name(), d, h.run.pid)
	time.Sleep(d)
}

// Needed skips the test where no host can be booted.
func Needed(t testing.TB) {
	t.Helper()
	_, err := Root(t.Context())
	switch {
	case err == nil:
	case errors.Is(err, errUnable) && os.Getenv("GPUAAS_RIG") != "required":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// Make reserves a host with an empty disk. Boot starts it.
func Make(ctx context.Context, o Options) (*Host, error) {
	root, err := Root(ctx)
	if err != nil {
		return nil, err
	}
	s, err := reserve()
	if err != nil {
		return nil, err
	}
	if o.Hostname == "" {
		o.Hostname = s.name()
	}
	h := &Host{Options: o, slot: s, root: root}
	return h, h.name()
}

// name gives the disk what tells one installed host from another.
func (h *Host) name() error {
	etc := filepath.Join(h.slot.dir, "upper", "etc")
	if err := os.MkdirAll(etc, 0o755); err != nil { //nolint:gosec // the host's /etc
		return fmt.Errorf("naming a host: %w", err)
	}
	id := uuid.New()
	for file, text := range map[string]string{"hostname": h.Hostname, "machine-id": hex.EncodeToString(id[:]), "hosts": "127.0.0.1 localhost " + h.Hostname} {
		if err := os.WriteFile(filepath.Join(etc, file), []byte(text+"\n"), 0o644); err != nil { //nolint:gosec // read by everybody on the host
			return fmt.Errorf("naming a host: %w", err)
		}
	}
	return nil
}

// Close stops the host and leaves nothing of it: no process, mount, network
// interface, control group or file.
func (h *Host) Close() error {
	h.Kill()
	return h.slot.free()
}

// Boot starts the host and returns when systemd has. On a disk that was used
// before, it finds what a crash has left there.
func (h *Host) Boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootWithin)
	defer cancel()
	r, err := h.start()
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.run = r
	h.mu.Unlock()
	for _, step := range []func(context.Context) error{h.leader, h.network, h.settled, h.devices} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("booting %s: %w; its console ends\n%s", h.slot.name(), err, h.console())
		}
	}
	return nil
}

// bootWithin is long: a quiet machine takes a second, one on which everything else
// is tested at once took twenty.
const bootWithin = 2 * time.Minute

// Kill pulls the plug: every process of the host is gone at once, with its mounts,
// its memory and its network. The disk stays.
func (h *Host) Kill() {
	h.mu.Lock()
	r := h.run
	h.run = nil
	h.mu.Unlock()
	if r != nil {
		r.kill()
	}
	h.slot.removeGroups()
}

// Addr is where the host is reached, Gateway where it reaches this machine.
func (h *Host) Addr() string { return h.slot.address(2) }

// Gateway is this machine's end of the host's only network: what listens here is
// reachable from the host, and nothing else is.
func (h *Host) Gateway() string { return h.slot.address(1) }

// Interface is the name of this machine's end.
func (h *Host) Interface() string { return "ve-" + h.slot.name() }

func (h *Host) console() string {
	text, err := os.ReadFile(filepath.Join(h.slot.dir, "console.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// outside runs a tool of this machine.
func outside(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput() //nolint:gosec // names of this package's own choice
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
