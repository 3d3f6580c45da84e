package local

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/output"
)

func NewDoctor(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check the local setup and the installation", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return doctor(cmd.Context(), a) },
	}
}

// examination is one line of doctor: the check, its result and the remedy.
type examination struct {
	Name    string `json:"name"`
	Status  string `json:"status"` // ok, warn, fail
	Message string `json:"message"`
	Try     string `json:"try,omitempty"`
}

const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
)

func doctor(ctx context.Context, a *output.Console) error {
	all := examineMachine(ctx)
	profiles, usable := examineProfile(ctx, a)
	all = append(all, profiles...)
	reachable := false
	if usable {
		var of []examination
		of, reachable = examineServer(ctx, a)
		all = append(all, of...)
	}
	all = append(all, examineDataDir(a, reachable)...)

	failed := 0
	for _, e := range all {
		if e.Status == statusFail {
			failed++
		}
	}
	if err := showExaminations(a, all); err != nil {
		return err
	}
	if failed == 0 {
		return nil
	}
	return &output.CommandError{
		Message: output.CountOf(failed, "check") + " failed", Code: output.CodeFindings, Try: "follow the suggestion of the first of them",
		Correlation: a.Correlation, Exit: output.ExitFailure,
	}
}

func showExaminations(a *output.Console, all []examination) error {
	if a.Data() {
		document, err := output.Encode(map[string]any{"checks": all})
		if err != nil {
			return err
		}
		return a.Show(document, output.Table{})
	}
	t := output.Table{}
	symbols := map[string]string{statusOK: output.SymbolGood, statusWarn: output.SymbolWarn, statusFail: output.SymbolBad}
	var b strings.Builder
	for _, e := range all {
		t.Names = append(t.Names, "check/"+e.Name)
		// Padded before it is painted: escape codes would count as width.
		fmt.Fprintf(&b, "%s %-18s %s\n", a.Paint(fmt.Sprintf("%s %-5s", symbols[e.Status], e.Status)), e.Name, e.Message)
		if e.Try != "" {
			fmt.Fprintf(&b, "%27s→ %s\n", "", e.Try)
		}
	}
	if a.Format() == "name" {
		return a.Show(nil, t)
	}
	_, err := fmt.Fprint(a.Out, b.String())
	return err
}
