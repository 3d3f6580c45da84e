package alloc

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const sshText = `Creates a key pair for this session, requests a certificate for this allocation, and runs ssh
with it. The private key never leaves the local machine and is deleted afterwards. The command
runs the command after -- instead of a shell.`

func NewSSH(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "ssh NAME [-- COMMAND…]", Short: "Open an SSH session in an allocation", Long: sshText, Args: cobra.MinimumNArgs(1),
		Example: "  gpuaas ssh brave-otter\n  gpuaas ssh brave-otter -- nvidia-smi -L",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			found, err := c.Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return login(cmd.Context(), a, c, found.Value, args[1:])
		},
	}
}

// login leaves nothing behind, whatever ends it.
func login(ctx context.Context, a *output.Console, c *client.Client, one oapi.Allocation, command []string) (err error) {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return &output.CommandError{Message: "ssh is not installed", Code: string(errs.Unavailable), Try: "install OpenSSH's client", Exit: output.ExitFailure}
	}
	dir, err := os.MkdirTemp("", "gpuaas-ssh-") // 0700
	if err != nil {
		return fmt.Errorf("creating a folder for the key: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	public, err := writeKey(filepath.Join(dir, "key"))
	if err != nil {
		return err
	}
	made, err := client.Change[oapi.SshCertificate](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.CreateSshCertificate(ctx, one.Id, nil, oapi.SshCertificateRequest{PublicKey: public}, c.InProject, once)
	})
	if err != nil {
		return err
	}
	if made.Value.Simulated {
		return &output.CommandError{
			Message: fmt.Sprintf("%s is on a simulated node, on which no SSH service runs", one.Name), Code: output.CodeSimulated,
			Try: "gpuaas describe alloc " + one.Name + ", or an allocation on a real node", Correlation: c.Correlation, Exit: output.ExitFailure,
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "key-cert.pub"), []byte(made.Value.Certificate+"\n"), 0o600); err != nil {
		return fmt.Errorf("keeping the certificate: %w", err)
	}
	run := exec.CommandContext(ctx, program, sshArguments(dir, made.Value, command)...) //nolint:gosec // the user's own ssh, with our arguments
	run.Stdin, run.Stdout, run.Stderr = a.In, a.Out, a.Err
	err = run.Run()
	if ended := (&exec.ExitError{}); errors.As(err, &ended) {
		return &output.CommandError{Silent: true, Exit: max(ended.ExitCode(), output.ExitFailure)}
	}
	return err
}

// sshArguments let in by this key and certificate alone.
func sshArguments(dir string, to oapi.SshCertificate, command []string) []string {
	key := filepath.Join(dir, "key")
	return append([]string{
		"-i", key, "-o", "CertificateFile=" + key + "-cert.pub", "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none",
		"-p", strconv.Itoa(to.Port), "-l", to.Login, to.Host, "--",
	}, command...)
}

// writeKey makes a key pair and returns the public line.
func writeKey(path string) (public string, err error) {
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "gpuaas")
	if err != nil {
		return "", fmt.Errorf("encoding the key: %w", err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return "", fmt.Errorf("keeping the key: %w", err)
	}
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("encoding the key: %w", err)
	}
	return string(ssh.MarshalAuthorizedKey(key)), nil
}
