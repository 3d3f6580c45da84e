package alloc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
)

const proofText = `Prints the proof by which a node showed that nothing of a released allocation is left.
With --verify it checks the signature of the node, the scan and the GPUs on the local
machine. With --file it reads a proof that "-o json" printed, and needs no server. --key
names the public key that the node must have, so that the server need not be trusted.`

func newAllocProof(a *output.Console) *cobra.Command {
	var verify bool
	var file, key string
	cmd := &cobra.Command{
		Use: "proof [NAME]", Short: "Show a release proof", Args: cobra.MaximumNArgs(1), Long: proofText,
		Example: "  gpuaas alloc proof brave-otter --verify\n  gpuaas alloc proof --verify --file proof.json --key 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (file == "") == (len(args) == 0) {
				return output.UsageError("name an allocation, or a file with --file")
			}
			got, err := proofOf(cmd.Context(), a, file, args)
			if err != nil {
				return err
			}
			if verify || file != "" {
				if err := verifyProof(got.Value, key); err != nil {
					return &output.CommandError{Message: "the proof is not valid: " + err.Error(), Code: output.CodeFindings, Exit: output.ExitFailure}
				}
				a.Notify("%s the proof is valid: signed by %s, nothing is left, %d GPUs were overwritten", output.SymbolGood, got.Value.PublicKey, len(got.Value.Gpus))
			}
			return a.Show(got.Raw, proofTable(got.Value))
		},
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "verify the proof on the local machine")
	cmd.Flags().StringVar(&file, "file", "", "verify a proof in a file; - reads stdin")
	cmd.Flags().StringVar(&key, "key", "", "public key of the node, in base64 (default: the key in the proof)")
	return cmd
}

func proofOf(ctx context.Context, a *output.Console, file string, args []string) (got client.Response[oapi.ReleaseProof], err error) {
	if file == "" {
		c, err := client.Connect(a)
		if err != nil {
			return got, err
		}
		found, err := c.Find(ctx, args[0])
		if err != nil {
			return got, err
		}
		return client.Send[oapi.ReleaseProof](ctx, c, func(ctx context.Context) (*http.Response, error) {
			return c.GetAllocationProof(ctx, found.Value.Id, nil, c.InProject)
		})
	}
	if file == "-" {
		got.Raw, err = io.ReadAll(io.LimitReader(a.In, maxProof))
	} else {
		got.Raw, err = os.ReadFile(file)
	}
	if err == nil {
		err = json.Unmarshal(got.Raw, &got.Value)
	}
	if err != nil {
		return got, output.UsageError("--file: %v", err)
	}
	return got, nil
}

// maxProof is more than a proof of the largest node.
const maxProof = 1 << 20

func verifyProof(p oapi.ReleaseProof, want string) error {
	if want != "" && want != p.PublicKey {
		return fmt.Errorf("it is of the key %s", p.PublicKey)
	}
	key, err := base64.StdEncoding.DecodeString(p.PublicKey)
	if err != nil {
		return fmt.Errorf("its public key is not base64: %w", err)
	}
	document, err := json.Marshal(p.Proof)
	if err != nil {
		return err
	}
	return manage.VerifyProof(document, key, p.AllocationId, p.Gpus)
}

func proofTable(p oapi.ReleaseProof) output.Table {
	t := output.Table{Head: []string{"PROVED", "GPUS", "CHECKS", "KEY"}}
	checks, _ := p.Proof["checks"].([]any)
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = fmt.Sprint(c)
	}
	t.Add("proof/"+p.AllocationId.String(), output.FormatTime(p.ProvedAt), strings.Join(p.Gpus, " "), output.CellText(strings.Join(names, " ")), p.PublicKey)
	return t
}
