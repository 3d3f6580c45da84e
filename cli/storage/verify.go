package storage

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

const verifyText = `Compares the object store with the files of all projects, and prints files whose bytes are lost
(missing) or changed (damaged), and backend objects of more than a day without a file (unknown). It
changes nothing, and ends with 1 if it has found something. --project limits it to the files of the
project with this id. It needs a role that operates the
platform, and prints ids and no names.

The runbook storage-mismatch describes what to do.`

func newVerify(a *output.Console) *cobra.Command {
	var checksums bool
	cmd := &cobra.Command{
		Use: "verify", Short: "Compare the object store with files", Long: verifyText, Args: cobra.NoArgs,
		Example: "  gpuaas storage verify\n  gpuaas storage verify --project 01990f3e-0000-7000-8000-000000000002 --checksums",
	}
	cmd.Flags().BoolVar(&checksums, "checksums", false, "read all bytes and compare their SHA-256")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		params := oapi.ListStorageFaultsParams{Checksums: output.PointerOrNil(checksums)}
		// The project of the profile is one of the operator's own, and limits nothing here.
		if cmd.Flags().Changed("project") {
			id, err := uuid.Parse(a.Project)
			if err != nil {
				return output.UsageError("%q is not the id of a project; --project needs the id here, because names are unique in a tenant only", a.Project)
			}
			params.Project = &id
		}
		return verify(cmd.Context(), a, params)
	}
	return cmd
}

func verify(ctx context.Context, a *output.Console, params oapi.ListStorageFaultsParams) error {
	c, err := client.Connect(a)
	if err != nil {
		return err
	}
	all, err := client.ReadAll[oapi.StorageFault](ctx, c, 0, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		params.Limit, params.Cursor = size, cursor
		return c.ListStorageFaults(ctx, &params)
	})
	if err != nil {
		return err
	}
	if err := a.Show(all.Raw, faultTable(all.Items)); err != nil {
		return err
	}
	if len(all.Items) == 0 {
		a.Notify("%s The object store and the files do not differ.", output.SymbolGood)
		return nil
	}
	counts := map[oapi.StorageFaultFault]int{}
	for _, f := range all.Items {
		counts[f.Fault]++
	}
	return &output.CommandError{
		Message: fmt.Sprintf("the object store and the files differ: %d missing, %d damaged, %d unknown", counts[oapi.StorageFaultFaultMissing], counts[oapi.StorageFaultFaultDamaged], counts[oapi.StorageFaultFaultUnknown]),
		Code:    output.CodeFindings, Try: "follow docs/runbooks/storage-mismatch.md", Correlation: a.Correlation, Exit: output.ExitFailure,
	}
}

func faultTable(all []oapi.StorageFault) output.Table {
	t := output.Table{Head: []string{"FAULT", "BACKEND OBJECT", "SIZE", "FILES", "FILE", "PROJECT"}, Wide: []string{"TENANT"}}
	for _, f := range all {
		t.Add("backend-object/"+f.ObjectKey.String(), string(f.Fault), f.ObjectKey.String(), output.Itoa(f.SizeBytes), output.Itoa(f.Files), idOrDash(f.ObjectId), idOrDash(f.ProjectId), idOrDash(f.TenantId))
	}
	return t
}

func idOrDash(id *uuid.UUID) string {
	if id == nil {
		return "-"
	}
	return id.String()
}
