package access

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

const (
	// printed is the number of bytes that one run prints.
	printed = 64 << 20
	// fromMemory is the number for a source that needs no time.
	fromMemory = 256 << 20
	pairs      = 7
)

// Throughput compares the output of a terminal with that of a direct SSH client, and with OpenSSH in a pipe.
func Throughput(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	r, err := start(ctx, l, "t1")
	if err != nil {
		return nil, err
	}
	defer r.server.Stop()
	ours, err := r.terminal(ctx)
	if err != nil {
		return nil, err
	}
	defer ours.close() //nolint:errcheck // the installation ends
	peer, err := r.direct()
	if err != nil {
		return nil, err
	}
	defer peer.close() //nolint:errcheck // the installation ends
	n := l.Scaled(printed, 1<<20)
	for _, s := range []*shell{&ours.shell, peer} {
		if err := s.quiet(); err != nil {
			return nil, err
		}
	}
	through := func(context.Context) (time.Duration, error) { return 0, ours.flood(n) }
	p, err := l.Alternate(ctx, pairs, nothing, through, func(context.Context) (time.Duration, error) { return 0, peer.flood(n) })
	if err != nil {
		return nil, err
	}
	return []lab.Row{lab.Throughput(p, n>>10, "T1", fmt.Sprintf("output of a terminal, %d MiB / the same by a direct Go SSH client", n>>20)).AtLeast(0.85)}, nil
}

// FromMemory compares the way of the output of a terminal with those of other clients. The source is a node of this bench that
// prints from memory: the pseudoterminal of a simulated node is slower than any of them.
func FromMemory(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(fromMemory, 4<<20)
	c, err := newCrowd(ctx, l, "t1", 1)
	if err != nil {
		return nil, err
	}
	defer c.end()
	var sides []lab.Side
	for _, of := range []clientsParameters{{Kind: byTerminal, Address: c.websockets, Count: 1, Allocations: c.allocations}, {Kind: bySSH, Address: c.ssh, Count: 1}} {
		shells, err := of.open(ctx)
		if err != nil {
			return nil, err
		}
		defer shells[0].close() //nolint:errcheck // the node ends
		sides = append(sides, func(context.Context) (time.Duration, error) { return 0, shells[0].drain(n) })
	}
	p, err := l.Alternate(ctx, pairs, nothing, sides[0], func(ctx context.Context) (time.Duration, error) { return 0, stock(ctx, c.ssh, n) })
	if err != nil {
		return nil, err
	}
	rows := []lab.Row{lab.Throughput(p, n>>10, "T1-stock", fmt.Sprintf("output of a terminal from memory, %d MiB / ssh | dd", n>>20)).AtLeast(1.5)}
	if p, err = l.Alternate(ctx, pairs, nothing, sides[0], sides[1]); err != nil {
		return rows, err
	}
	return append(rows, lab.Throughput(p, n>>10, "T1-memory", "the same / a direct Go SSH client")), nil
}

// drain lets the shell of a node of this bench print n bytes, and reads them.
func (s *shell) drain(n int) error {
	if err := s.types(fmt.Sprintf("flood %d\n", n)); err != nil {
		return err
	}
	_, err := s.until("E")
	return err
}

func nothing(context.Context) error { return nil }

// stock prints n bytes through OpenSSH's client with its default settings.
func stock(ctx context.Context, at string, n int) error {
	address, port, err := net.SplitHostPort(at)
	if err != nil {
		return fmt.Errorf("reading the address of the node: %w", err)
	}
	command := fmt.Sprintf(`echo flood %d | ssh -F none -p %s -tt -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR bench@%s | dd bs=64k of=/dev/null`, n, port, address)
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command) //nolint:gosec // its parts are ours
	cmd.Stderr = &said
	var copied int
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ssh: %w: %s", err, &said)
	}
	if i := strings.Index(said.String(), " bytes"); i > 0 {
		_, _ = fmt.Sscan(said.String()[strings.LastIndexAny(said.String()[:i], "\n")+1:i], &copied)
	}
	if copied < n {
		return fmt.Errorf("ssh has copied %d bytes of %d: %s", copied, n, &said)
	}
	return nil
}
