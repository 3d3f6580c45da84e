// Package backup has the commands that back up and restore PostgreSQL. They run on the computer of the database and call
// no installation.
package backup

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
)

// NewBackup returns the group backup.
func NewBackup(a *output.Console) *cobra.Command {
	return output.Group("backup", "Create and restore backups", newKeygen(a), newCreate(a), newList(a), newVerify(a), newRestore(a), newPrune(a), newPush(a), newFetch(a), newReceive(a))
}

// flags are the place of backups and the key files. Their variables are for archive_command and timers.
type flags struct{ target, key, identity string }

const (
	targetVariable   = "GPUAAS_BACKUP_TARGET"
	keyVariable      = "GPUAAS_BACKUP_KEY"
	identityVariable = "GPUAAS_BACKUP_IDENTITY"
)

func (f *flags) addTarget(c *cobra.Command) {
	c.Flags().StringVar(&f.target, "target", "", "place of the backups: file:///PATH, or s3://BUCKET/PREFIX?endpoint=URL&region=REGION ("+targetVariable+")")
}

func (f *flags) addKey(c *cobra.Command) {
	c.Flags().StringVar(&f.key, "key", "", "key file of the server ("+keyVariable+")")
}

func (f *flags) addIdentity(c *cobra.Command) {
	c.Flags().StringVar(&f.identity, "identity", "", "key file of the operator ("+identityVariable+")")
}

func (f *flags) server(a *output.Console) (seal.Server, error) {
	text, err := readKey("key", cmp.Or(f.key, a.Env(keyVariable)), keyVariable)
	if err != nil {
		return seal.Server{}, err
	}
	return seal.ParseServer("key", text)
}

func (f *flags) operator(a *output.Console) (seal.Operator, error) {
	text, err := readKey("identity", cmp.Or(f.identity, a.Env(identityVariable)), identityVariable)
	if err != nil {
		return seal.Operator{}, err
	}
	return seal.ParseOperator("identity", text)
}

// verifier is that of either key file.
func (f *flags) verifier(a *output.Console) (seal.Verifier, error) {
	if cmp.Or(f.identity, a.Env(identityVariable)) != "" {
		o, err := f.operator(a)
		return o.Verifier, err
	}
	s, err := f.server(a)
	if err != nil {
		return seal.Verifier{}, err
	}
	return s.Verifier(), nil
}

func readKey(field, file, variable string) ([]byte, error) {
	if file == "" {
		return nil, errs.Invalid(field, "no key file is named").Try("--%s FILE, or set %s; gpuaas backup keygen makes key files", field, variable)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, errs.Invalid(field, "cannot be read: %v", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, seal.MaxKeyFile+1))
	if err != nil {
		return nil, errs.Invalid(field, "cannot be read: %v", err)
	}
	return text, nil
}

const (
	serverName   = "backup-server.key"
	operatorName = "backup-operator.key"
)

func newKeygen(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "keygen DIR", Short: "Generate the key files of backups", Args: cobra.ExactArgs(1), Example: "  gpuaas backup keygen /root/backup-keys",
		Long: `Writes two files. ` + serverName + ` encrypts and signs; it stays on the computer of the database.
` + operatorName + ` decrypts and verifies. Move it away from that computer, and store a second copy:
without it, every backup is lost.`,
		RunE: func(_ *cobra.Command, args []string) error {
			server, operator, err := seal.Generate()
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o700); err != nil {
				return errs.Invalid("dir", "cannot be made: %v", err)
			}
			for _, f := range []struct{ name, text string }{{operatorName, operator}, {serverName, server}} {
				err := durable.Create(filepath.Join(args[0], f.name), []byte(f.text), 0o600)
				if errors.Is(err, os.ErrExist) {
					return errs.New(errs.AlreadyExists, "%s exists in %s: backups may need it", f.name, args[0]).Try("name another folder")
				}
				if err != nil {
					return err
				}
			}
			a.Notify("Move %s away from this computer. Without it, every backup is lost.", filepath.Join(args[0], operatorName))
			return a.Write(fmt.Sprintf("%s\n%s\n", filepath.Join(args[0], serverName), filepath.Join(args[0], operatorName)))
		},
	}
}
