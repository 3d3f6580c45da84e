package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const configText = `Writes ~/.ssh/gpuaas/config and a line in ~/.ssh/config that includes it. Each tool that uses ssh then knows
allocations as NAME.gpuaas: ssh, scp, sftp, rsync, git, VS Code and JetBrains. ssh requests the certificate itself.`

// NewSSHConfig returns the command ssh-config.
func NewSSHConfig(a *output.Console) *cobra.Command {
	var dryRun, remove bool
	cmd := &cobra.Command{
		Use: "ssh-config", Short: "Update the configuration of ssh", Long: configText, Args: cobra.NoArgs,
		Example: "  gpuaas ssh-config\n  ssh brave-otter.gpuaas",
		RunE: func(*cobra.Command, []string) error {
			home, err := os.UserHomeDir()
			if err != nil {
				return fmt.Errorf("finding the home directory: %w", err)
			}
			c := sshConfig{dir: filepath.Join(home, ".ssh")}
			switch {
			case dryRun:
				return a.Write(c.text())
			case remove:
				return c.remove()
			}
			return c.write()
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the configuration, and write nothing")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the configuration")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "remove")
	cmd.AddCommand(newPrepare(a))
	return cmd
}

// newPrepare returns the command that ssh runs before it connects: it makes the certificate, and a file with the
// account of the allocation, which the configuration includes after it.
func newPrepare(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "prepare HOST", Short: "Create certificate for ssh", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, ours := strings.CutSuffix(args[0], hostSuffix)
			if !ours || !validName(name) {
				return errs.Invalid("host", "%q is no name of an allocation with %s", args[0], hostSuffix)
			}
			t, err := find(cmd.Context(), a, name)
			if err != nil {
				return err
			}
			if err := t.prepare(cmd.Context(), false); err != nil {
				return err
			}
			home, err := os.UserHomeDir()
			if err != nil {
				return fmt.Errorf("finding the home directory: %w", err)
			}
			return t.writeHost(filepath.Join(home, ".ssh", hostsDir), args[0])
		},
	}
}

const (
	configFile = "gpuaas/config"
	hostsDir   = "gpuaas/hosts"
	include    = "Include gpuaas/config\n"
)

// sshConfig is the folder .ssh of the user.
type sshConfig struct{ dir string }

// text is the configuration. ssh reads it line by line, so that the included files exist when they are read.
func (sshConfig) text() string {
	return "# Written by gpuaas ssh-config, which replaces this file.\n" +
		"Match originalhost *" + hostSuffix + " exec \"" + strings.ReplaceAll(self(), "%", "%%") + " ssh-config prepare %n\"\n" +
		"Host *\n" +
		"Include " + hostsDir + "/*.conf\n"
}

func (c sshConfig) write() error {
	if err := os.MkdirAll(filepath.Join(c.dir, hostsDir), 0o700); err != nil {
		return fmt.Errorf("creating the folder of the configuration: %w", err)
	}
	if err := durable.Write(filepath.Join(c.dir, configFile), []byte(c.text()), 0o600); err != nil {
		return err
	}
	main, err := c.read()
	if err != nil || strings.Contains(main, include) {
		return err
	}
	// A line after the first Host would apply to that host only.
	return durable.Write(filepath.Join(c.dir, "config"), []byte(include+main), 0o600)
}

func (c sshConfig) read() (string, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "config"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the configuration of ssh: %w", err)
	}
	return string(text), nil
}

func (c sshConfig) remove() error {
	main, err := c.read()
	if err != nil {
		return err
	}
	if after := strings.Replace(main, include, "", 1); after != main {
		if err := durable.Write(filepath.Join(c.dir, "config"), []byte(after), 0o600); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(filepath.Join(c.dir, "gpuaas")); err != nil {
		return fmt.Errorf("removing the configuration: %w", err)
	}
	return nil
}

// writeHost writes how ssh reaches one allocation.
func (t *target) writeHost(dir, host string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the folder of the configuration: %w", err)
	}
	var text strings.Builder
	text.WriteString("Host " + host + "\n")
	options := t.options()
	for i := 1; i < len(options); i += 2 { // after each -o
		name, value, _ := strings.Cut(options[i], "=")
		text.WriteString("  " + name + " " + value + "\n")
	}
	return durable.Write(filepath.Join(dir, host+".conf"), []byte(text.String()), 0o600)
}

// validName reports whether the text can be a name or an id of an allocation: ssh passes it to a shell.
func validName(name string) bool {
	return name != "" && len(name) <= 63 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}
