package access

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

const (
	// printed is the number of bytes that one run prints.
	printed = 64 << 20
	pairs   = 7
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
	rows := []lab.Row{lab.Throughput(p, n>>10, "T1", fmt.Sprintf("output of a terminal, %d MiB / the same by a direct Go SSH client", n>>20)).AtLeast(0.85)}
	p, err = l.Alternate(ctx, pairs, nothing, through, func(ctx context.Context) (time.Duration, error) { return 0, r.stock(ctx, n) })
	if err != nil {
		return rows, err
	}
	return append(rows, lab.Throughput(p, n>>10, "T1-stock", "the same / ssh | dd").AtLeast(1.5)), nil
}

func nothing(context.Context) error { return nil }

// stock prints n bytes through OpenSSH's client.
func (r *rig) stock(ctx context.Context, n int) error {
	address, port, err := net.SplitHostPort(r.address)
	if err != nil {
		return fmt.Errorf("reading the address of the node: %w", err)
	}
	command := fmt.Sprintf(`ssh -F none -i '%s' -p %s -c %s -tt -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR '%s@%s' "head -c %d /dev/zero | tr '\0' x" | dd bs=64k of=/dev/null`,
		r.files, port, cipher, r.client.User, address, n)
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command) //nolint:gosec // its parts are ours
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil || !bytes.Contains(said.Bytes(), []byte("bytes")) {
		return fmt.Errorf("ssh: %w: %s", err, &said)
	}
	return nil
}
