package alloc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// NewKeys returns the command group of SSH keys. The caller adds the commands of other areas with
// the same name.
func NewKeys(a *output.Console, more ...*cobra.Command) *cobra.Command {
	return output.Group("keys", "Manage SSH keys", append([]*cobra.Command{newKeysAdd(a), newKeysList(a), newKeysDelete(a)}, more...)...)
}

func newKeysAdd(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "add NAME [FILE]", Short: "Add an SSH public key", Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := publicKey(a, args[1:])
			if err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			once := client.IdempotencyKey()
			made, err := client.Send[oapi.SshKey](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) {
				return c.CreateSshKey(ctx, nil, oapi.SshKeyRequest{Name: args[0], PublicKey: text}, once)
			})
			if err != nil {
				return err
			}
			return a.Show(made.Raw, keyTable(a, made.Value))
		},
	}
}

// publicKey reads the key. It rejects a private key here: the server would reject it as well, but
// only after the key has crossed the network.
func publicKey(a *output.Console, from []string) (string, error) {
	text, err := keyText(a, from)
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(text)
	switch {
	case strings.Contains(line, "PRIVATE KEY"):
		return "", errs.New(errs.SSHKeyInvalid, "this is a private key; it was not sent").Try("use the .pub file in the same folder")
	case line == "" || strings.Contains(line, "\n"):
		return "", errs.New(errs.SSHKeyInvalid, "this is not one line of authorized_keys")
	}
	return line, nil
}

func keyText(a *output.Console, from []string) (string, error) {
	if len(from) == 1 && from[0] == "-" {
		text, err := io.ReadAll(io.LimitReader(a.In, 1<<20))
		if err != nil {
			return "", fmt.Errorf("reading the key: %w", err)
		}
		return string(text), nil
	}
	if len(from) == 0 {
		for _, name := range []string{"id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub"} { // sorted as ssh prefers them
			from = append(from, filepath.Join(a.Env("HOME"), ".ssh", name))
		}
	}
	for _, path := range from {
		text, err := os.ReadFile(path)
		switch {
		case err == nil:
			return string(text), nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("reading the key: %w", err)
		}
	}
	f := output.UsageError("no public key at %s", strings.Join(from, ", "))
	f.Try = "ssh-keygen -t ed25519, then the same command again"
	return "", f
}

func newKeysList(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List SSH keys", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			all, err := keys(cmd.Context(), c)
			if err != nil {
				return err
			}
			return a.Show(all.Raw, keyTable(a, all.Items...))
		},
	}
}

func newKeysDelete(a *output.Console) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete an SSH key", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.RequireConfirmation(yes, "keys delete"); err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			ids, err := keyIDs(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			if !yes {
				if err := a.ConfirmName(cmd.Context(), args[0], "The key "+args[0]+" will log in to no new allocation.", "nothing was removed"); err != nil {
					return err
				}
			}
			once := client.IdempotencyKey()
			_, err = client.Send[struct{}](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) {
				return c.DeleteSshKey(ctx, ids[0], nil, once)
			})
			if err == nil {
				a.Notify("%s removed %s", output.SymbolGood, args[0])
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not prompt for the name")
	return cmd
}

func keys(ctx context.Context, c *client.Client) (client.List[oapi.SshKey], error) {
	return client.ReadAll[oapi.SshKey](ctx, c, 0, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListSshKeys(ctx, &oapi.ListSshKeysParams{Limit: size, Cursor: cursor})
	})
}

// keyIDs finds keys by name or id.
func keyIDs(ctx context.Context, c *client.Client, names []string) ([]uuid.UUID, error) {
	if len(names) == 0 {
		return nil, nil
	}
	all, err := keys(ctx, c)
	if err != nil {
		return nil, err
	}
	known := map[string]uuid.UUID{}
	for _, k := range all.Items {
		known[k.Name], known[k.Id.String()] = k.Id, k.Id
	}
	ids := make([]uuid.UUID, 0, len(names))
	for _, name := range names {
		id, ok := known[name]
		if !ok {
			return nil, &output.CommandError{
				Message: fmt.Sprintf("you have no key %q", name), Code: string(errs.NotFound), Try: "gpuaas keys list",
				Correlation: c.Correlation, Exit: output.ExitNotFound,
			}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func keyTable(a *output.Console, all ...oapi.SshKey) output.Table {
	t := output.Table{Head: []string{"NAME", "FINGERPRINT", "AGE"}, Wide: []string{"ID"}}
	for _, k := range all {
		t.Add("ssh-key/"+k.Name, k.Name, k.Fingerprint, output.Age(a.Clock.Now(), k.CreatedAt), k.Id.String())
	}
	return t
}
