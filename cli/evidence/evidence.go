// Package evidence contains the commands of evidence bundles.
package evidence

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
)

// NewEvidence returns the group evidence.
func NewEvidence(a *output.Console) *cobra.Command {
	return output.Group("evidence", "Create and verify evidence bundles", newEvidenceCreate(a), newEvidenceList(a), newEvidenceGet(a), newEvidenceVerify(a))
}

func newEvidenceCreate(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "create NAME", Short: "Create evidence of an allocation", Args: cobra.ExactArgs(1), Example: "  gpuaas evidence create brave-otter",
		Long: `Requests a bundle of the life of an allocation up to now. The server signs it in some seconds. Roles of the platform
name an allocation of another tenant by its id.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			id, _, isID := output.IdOf(args[0])
			if !isID {
				found, err := c.Find(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				id = found.Value.Id
			}
			got, err := client.Send[oapi.EvidenceBundle](cmd.Context(), c, func(ctx context.Context) (*http.Response, error) {
				return c.CreateEvidence(ctx, id, &oapi.CreateEvidenceParams{})
			})
			if err != nil {
				return err
			}
			a.Notify("The bundle is pending: gpuaas evidence get %s", got.Value.Id)
			return a.Show(got.Raw, evidenceTable(a, got.Value))
		},
	}
}

func newEvidenceList(a *output.Console) *cobra.Command {
	var kind, about, status string
	cmd := &cobra.Command{Use: "list", Short: "List evidence bundles", Args: cobra.NoArgs, Example: "  gpuaas evidence list --kind revision"}
	cmd.Flags().StringVar(&kind, "kind", "", "only of this kind: allocation, revision, plan or key_rotation")
	cmd.Flags().StringVar(&about, "about", "", "only about this resource: its URN, its id, the number of a revision, or the purpose of keys")
	cmd.Flags().StringVar(&status, "status", "", "only with this status: pending, signed or failed")
	return client.ListCommand(a, cmd, func(context.Context, *client.Client, []string) (client.Pager, error) {
		c, err := client.Connect(a)
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListEvidence(ctx, &oapi.ListEvidenceParams{
				Kind: output.PointerOrNil(oapi.EvidenceKind(kind)), About: output.PointerOrNil(about), Status: output.PointerOrNil(oapi.EvidenceStatus(status)), Limit: size, Cursor: cursor,
			})
		}, err
	}, evidenceTable)
}

func evidenceTable(a *output.Console, all ...oapi.EvidenceBundle) output.Table {
	t := output.Table{Head: []string{"ID", "NUMBER", "KIND", "STATUS", "ABOUT", "AGE"}, Wide: []string{"SHA256", "KEY", "REQUESTED BY", "FAILURE"}}
	for _, e := range all {
		number := "-"
		if e.Number != nil {
			number = strconv.FormatInt(*e.Number, 10)
		}
		t.Add("evidence/"+e.Id.String(), e.Id.String(), number, string(e.Kind), string(e.Status), output.CellText(e.About), output.Age(a.Clock.Now(), e.CreatedAt),
			output.OrDash(output.ValueOrZero(e.Sha256)), output.OrDash(output.ValueOrZero(e.KeyId)), output.CellText(e.RequestedBy), output.OrDash(output.CellText(output.ValueOrZero(e.FailureMessage))))
	}
	return t
}

func newEvidenceGet(a *output.Console) *cobra.Command {
	var file, keyFile string
	cmd := &cobra.Command{
		Use: "get ID", Short: "Get an evidence bundle", Args: cobra.ExactArgs(1),
		Example: "  gpuaas evidence get 01990f47-1111-7222-8333-444455556666 -f bundle.json --key-file evidence.keys",
		Long: `Shows a bundle, and writes its file with -f. --key-file writes the key that the server names. Do that once, while you
trust the server, and store the file elsewhere: a later bundle that another key has signed must not verify by itself. The
command changes no key file that exists.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			got, err := evidenceOf(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			e := got.Value
			if (file != "" || keyFile != "") && e.File == nil {
				return unsigned(e)
			}
			if err := saveKey(a, keyFile, e); err != nil {
				return err
			}
			if err := saveText(a, file, output.ValueOrZero(e.File)); err != nil {
				return err
			}
			return a.Show(got.Raw, evidenceTable(a, e))
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file to write the bundle to")
	cmd.Flags().StringVar(&keyFile, "key-file", "", "file to write the public key to")
	return cmd
}

// unsigned names the reason for which a bundle has no file.
func unsigned(e oapi.EvidenceBundle) error {
	if e.Status == oapi.EvidenceStatusFailed {
		return errs.New(errs.Conflict, "the bundle %s has failed: %s", e.Id, output.ValueOrZero(e.FailureMessage)).Try("for an allocation: gpuaas evidence create")
	}
	return errs.New(errs.Conflict, "the bundle %s is pending", e.Id).Try("repeat the command in some seconds")
}

func evidenceOf(ctx context.Context, a *output.Console, arg string) (got client.Response[oapi.EvidenceBundle], err error) {
	id, ref, ok := output.IdOf(arg)
	if !ok {
		return got, output.UsageError("%q is no id of an evidence bundle", ref)
	}
	c, err := client.Connect(a)
	if err != nil {
		return got, err
	}
	return client.Send[oapi.EvidenceBundle](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetEvidence(ctx, id) })
}

// saveKey writes a new key file. It changes none: a server that was replaced would replace the trusted keys, too.
func saveKey(a *output.Console, file string, e oapi.EvidenceBundle) error {
	if file == "" {
		return nil
	}
	key, err := base64.StdEncoding.DecodeString(output.ValueOrZero(e.PublicKey))
	if err != nil {
		return fmt.Errorf("reading the public key: %w", err)
	}
	line := bundle.KeyLine(output.ValueOrZero(e.KeyId), key)
	switch have, err := readBounded(file, maxKeyFile); {
	case errors.Is(err, fs.ErrNotExist):
		return saveText(a, file, line)
	case err != nil:
		return errs.Invalid("key-file", "%v", err)
	default:
		keys, err := bundle.ParseKeys(have)
		if err != nil {
			return errs.Invalid("key-file", "%s: %v", file, err)
		}
		if keys[output.ValueOrZero(e.KeyId)].Equal(ed25519.PublicKey(key)) {
			return nil
		}
	}
	return errs.New(errs.AlreadyExists, "%s exists, and has another key than %s, which the server names", file, output.ValueOrZero(e.KeyId)).
		Try("compare the key with a second source, and add this line: %s", strings.TrimSpace(line))
}

// saveText writes a file as a whole. Without a name it writes nothing.
func saveText(a *output.Console, file, text string) error {
	if file == "" {
		return nil
	}
	n, err := client.WriteWhole(file, func(to io.Writer) (int64, error) { return io.Copy(to, strings.NewReader(text)) })
	if err == nil {
		a.Notify("%s %s: %d bytes", output.SymbolGood, file, n)
	}
	return err
}
