// Package rig boots real Debian containers locally: systemd, logind, sshd and cgroup-v2 device control,
// each in its own container, in about a second. The agent's tests and end-to-end tests with a
// server outside run on them.
//
// A container has no GPU. Its device nodes have no driver, so an allowed open returns ENXIO and a denied
// one EPERM. Isolation can be tested without a GPU; the work on a GPU cannot. The package is not
// part of the product.
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

// Options describe a container. The zero value is a container without GPUs.
type Options struct {
	Hostname string
	// Profile is the simulated hardware of the double of nvidia-smi. The container gets the same number
	// of device nodes: l40s-4, t4-4, a100-8, h100-8. Empty means none.
	Profile string
	// DevicesAfter is the delay of the devices after the rest of the container, because a real driver
	// needs time, too.
	DevicesAfter time.Duration
}

// Container is one booted container. It can be killed and booted again on the same disk.
type Container struct {
	Options

	slot slot
	root string // the root file system, shared and never written
	mu   sync.Mutex
	run  *running // nil while it is off
}

// New boots a container that ends with the test, however the test ends. Without root, the tools, or a
// root file system the test skips with the reason. With GPUAAS_RIG=required it fails instead.
func New(t testing.TB, o Options) *Container {
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
			h.delayRemoval(t)
		}
	})
	return h
}

// delayRemoval delays the removal of the container after a failed test for GPUAAS_RIG_HOLD, so that a developer
// can inspect it.
func (h *Container) delayRemoval(t testing.TB) {
	t.Helper()
	d, err := time.ParseDuration(os.Getenv("GPUAAS_RIG_HOLD"))
	if h.run == nil || err != nil {
		return
	}
	fmt.Fprintf(os.Stderr, "%s failed; for %s its container is entered by: nsenter -t %d -a bash\n", t.Name(), d, h.run.pid)
	time.Sleep(d)
}

// Needed skips the test if no container can be booted.
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

// Make reserves a container with an empty disk. Boot starts it.
func Make(ctx context.Context, o Options) (*Container, error) {
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
	h := &Container{Options: o, slot: s, root: root}
	return h, h.name()
}

// name writes the identity of an installed container to the disk.
func (h *Container) name() error {
	etc := filepath.Join(h.slot.dir, "upper", "etc")
	if err := os.MkdirAll(etc, 0o755); err != nil { //nolint:gosec // the host's /etc
		return fmt.Errorf("naming a container: %w", err)
	}
	id := uuid.New()
	for file, text := range map[string]string{"hostname": h.Hostname, "machine-id": hex.EncodeToString(id[:]), "hosts": "127.0.0.1 localhost " + h.Hostname} {
		if err := os.WriteFile(filepath.Join(etc, file), []byte(text+"\n"), 0o644); err != nil { //nolint:gosec // read by everybody on the host
			return fmt.Errorf("naming a container: %w", err)
		}
	}
	return nil
}

// Close stops the container and removes all its processes, mounts, network interfaces, control groups
// and files.
func (h *Container) Close() error {
	h.Kill()
	return h.slot.free()
}

// Boot starts the container and returns after systemd has started. A disk that was used before contains
// what a crash has left there.
func (h *Container) Boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootWithin)
	defer cancel()
	r, err := h.start()
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.run = r
	h.mu.Unlock()
	for _, step := range []func(context.Context) error{h.leader, h.network, h.systemReady, h.devices} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("booting %s: %w; its console ends\n%s", h.slot.name(), err, h.console())
		}
	}
	return nil
}

// bootWithin is long: a boot lasts a second on an idle computer, and lasted twenty while all other
// tests ran.
const bootWithin = 2 * time.Minute

// Kill simulates a power failure: every process, mount and network of the container ends at once, and
// its memory is lost. The disk stays.
func (h *Container) Kill() {
	h.mu.Lock()
	r := h.run
	h.run = nil
	h.mu.Unlock()
	if r != nil {
		r.kill()
	}
	h.slot.removeGroups()
}

// Addr returns the address of the container.
func (h *Container) Addr() string { return h.slot.address(2) }

// Gateway returns the local end of the container's only network. The container can reach only listeners on
// this address.
func (h *Container) Gateway() string { return h.slot.address(1) }

// Interface returns the name of the local network interface.
func (h *Container) Interface() string { return "ve-" + h.slot.name() }

func (h *Container) console() string {
	text, err := os.ReadFile(filepath.Join(h.slot.dir, "console.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// outside runs a local tool.
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
