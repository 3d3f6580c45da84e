package access

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const sshText = `Runs ssh in an allocation through the installation: the node needs no address that is reachable
from here. A certificate for some minutes is requested for a key that stays on the local machine.
The command runs the command after -- instead of a shell.`

// NewSSH returns the command ssh.
func NewSSH(a *output.Console) *cobra.Command {
	var direct, proxy, printed bool
	cmd := &cobra.Command{
		Use: "ssh NAME [-- COMMAND…]", Short: "Open an SSH session in an allocation", Long: sshText, Args: cobra.MinimumNArgs(1),
		Example: "  gpuaas ssh brave-otter\n  gpuaas ssh brave-otter -- nvidia-smi -L",
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := find(cmd.Context(), a, args[0])
			switch {
			case err != nil:
				return err
			case proxy:
				return stdio(cmd.Context(), a, t.client, t.allocation.Id)
			}
			if err := t.prepare(cmd.Context(), direct); err != nil {
				return err
			}
			if printed {
				return a.Write(t.commandLine("ssh", args[1:]) + "\n")
			}
			return t.run(cmd.Context(), "ssh", append([]string{t.host(), "--"}, args[1:]...))
		},
	}
	cmd.Flags().BoolVar(&direct, "direct", false, "connect to the address of the node, if the policy terminal.direct_login allows it")
	cmd.Flags().BoolVar(&proxy, "stdio", false, "connect stdin and stdout with the sshd of the allocation, as a ProxyCommand of ssh")
	cmd.Flags().BoolVar(&printed, "print", false, "print the ssh command instead of running it")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { // mostly a flag of the command
		return &output.CommandError{Message: err.Error(), Code: "usage", Try: "gpuaas ssh NAME -- COMMAND…", Exit: output.ExitUsage}
	})
	cmd.MarkFlagsMutuallyExclusive("direct", "stdio")
	cmd.MarkFlagsMutuallyExclusive("print", "stdio")
	return cmd
}

// target is an allocation with a key and a certificate for it.
type target struct {
	console     *output.Console
	client      *client.Client
	allocation  oapi.Allocation
	certificate oapi.SshCertificate
	dir         string // of the key
	direct      bool
}

func find(ctx context.Context, a *output.Console, name string) (*target, error) {
	c, err := client.Connect(a)
	if err != nil {
		return nil, err
	}
	found, err := c.Find(ctx, name)
	return &target{console: a, client: c, allocation: found.Value}, err
}

// host is the name by which ssh knows the allocation. It is an id, so that ssh cannot read it as an option.
func (t *target) host() string { return t.allocation.Id.String() + hostSuffix }

// hostSuffix ends the names of allocations in the configuration of ssh.
const hostSuffix = ".gpuaas"

// options let in by the key and the certificate alone.
func (t *target) options() []string {
	key := filepath.Join(t.dir, "key")
	all := []string{
		"-o", "IdentityFile=" + file(key), "-o", "CertificateFile=" + file(key+"-cert.pub"), "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none",
		"-o", "User=" + t.certificate.Login, "-o", "HostKeyAlias=" + t.host(),
		// The node has reported these host keys.
		"-o", "UserKnownHostsFile=" + file(filepath.Join(t.dir, "known_hosts")), "-o", "StrictHostKeyChecking=yes", "-o", "GlobalKnownHostsFile=none",
	}
	if t.direct {
		return append(all, "-o", "HostName="+output.ValueOrZero(t.certificate.Host), "-o", "Port="+strconv.Itoa(output.ValueOrZero(t.certificate.Port)))
	}
	return append(all, "-o", "ProxyCommand="+proxyCommand(t.allocation.Id.String()))
}

// run runs a program of OpenSSH and returns its exit status.
func (t *target) run(ctx context.Context, program string, arguments []string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return &output.CommandError{Message: program + " is not installed", Code: string(errs.Unavailable), Try: "install OpenSSH's client, or run gpuaas terminal " + t.allocation.Name, Exit: output.ExitFailure}
	}
	run := exec.CommandContext(ctx, path, append(t.options(), arguments...)...) //nolint:gosec // the user's own ssh, with our arguments
	run.Stdin, run.Stdout, run.Stderr = t.console.In, t.console.Out, t.console.Err
	run.Env = append(os.Environ(), t.client.Environment()...)
	err = run.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return &output.CommandError{Silent: true, Exit: max(ended.ExitCode(), output.ExitFailure)}
	}
	return err
}

// commandLine is the command that run would run.
func (t *target) commandLine(program string, arguments []string) string {
	words := []string{program}
	for _, word := range append(append(t.options(), t.host()), arguments...) {
		words = append(words, quote(word))
	}
	return strings.Join(words, " ")
}
