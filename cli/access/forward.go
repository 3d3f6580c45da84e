package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const forwardText = `Opens ports of this computer that lead to ports of programs in an allocation, through the installation. LOCAL is a port of
this computer, and 0 a free one. PORT is the port in the allocation, and LOCAL without it. The command runs until it is interrupted.`

// NewPortForward returns the command port-forward.
func NewPortForward(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "port-forward NAME LOCAL[:PORT]…", Short: "Open ports of an allocation", Long: forwardText, Args: cobra.MinimumNArgs(2),
		Example: "  gpuaas port-forward brave-otter 8888\n  gpuaas port-forward brave-otter 8080:80 0:6006",
		RunE: func(cmd *cobra.Command, args []string) error {
			ports, err := listenOn(cmd.Context(), args[1:])
			if err != nil {
				return err
			}
			defer closeAll(ports)
			t, err := find(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			if err := t.prepare(cmd.Context(), false); err != nil {
				return err
			}
			return t.forward(cmd.Context(), ports)
		},
	}
}

// forwardedPort is a port of this computer, and the port in the allocation that it leads to.
type forwardedPort struct {
	net.Listener

	to int
}

const maxPort = 1<<16 - 1

func parsePorts(text string) (local, to int, err error) {
	first, second, both := strings.Cut(text, ":")
	if local, err = strconv.Atoi(first); err == nil {
		if to = local; both {
			to, err = strconv.Atoi(second)
		}
	}
	if err != nil || local < 0 || local > maxPort || to < 1 || to > maxPort {
		return 0, 0, errs.Invalid("port", "%q is no LOCAL[:PORT] with ports up to %d", text, maxPort).Try("gpuaas port-forward NAME 8888:80")
	}
	return local, to, nil
}

// listenOn opens all ports before anything else, so that one that is in use is noticed at once. No other computer reaches
// them.
func listenOn(ctx context.Context, texts []string) (ports []forwardedPort, err error) {
	defer func() {
		if err != nil {
			closeAll(ports)
		}
	}()
	for _, text := range texts {
		local, to, err := parsePorts(text)
		if err != nil {
			return ports, err
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(local)))
		if err != nil {
			return ports, errs.New(errs.Conflict, "port %d is not free: %v", local, err).Try("choose another port, or 0 for a free one")
		}
		ports = append(ports, forwardedPort{l, to})
	}
	return ports, nil
}

func closeAll(ports []forwardedPort) {
	for _, p := range ports {
		_ = p.Close()
	}
}

// forward serves the ports until ctx or the connection ends.
func (t *target) forward(ctx context.Context, ports []forwardedPort) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, reason, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // its end is the end of the command
	for _, p := range ports {
		t.console.Notify("%s leads to port %d of %s", p.Addr(), p.to, t.allocation.Name)
		go t.serve(ctx, client, p)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Wait()
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-ended:
		return reason()
	}
}

func (t *target) serve(ctx context.Context, client *ssh.Client, p forwardedPort) {
	for {
		local, err := p.Accept()
		if err != nil {
			return // the command ends
		}
		go func() {
			defer local.Close() //nolint:errcheck // the bytes have been copied
			remote, err := client.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.to)))
			if err != nil {
				t.console.Notify("%s: %s", p.Addr(), unreachable(err, p.to))
				return
			}
			defer remote.Close() //nolint:errcheck // likewise
			back := make(chan struct{})
			go func() {
				defer close(back)
				pass(local, remote)
			}()
			pass(remote, local)
			<-back
		}()
	}
}

// unreachable explains why a port of the allocation cannot be reached.
func unreachable(err error, port int) string {
	rejected, ok := errors.AsType[*ssh.OpenChannelError](err)
	switch {
	case ok && rejected.Reason == ssh.Prohibited:
		return "the node forwards no ports for the allocation: see its condition AccessRestricted, and the policy terminal.forwarding_enabled"
	case ok:
		return fmt.Sprintf("no program of the allocation accepts connections at port %d", port)
	}
	return err.Error()
}

// pass copies one direction, and ends it alone.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
}
