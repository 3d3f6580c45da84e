// Package support contains the command of support bundles.
package support

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/deploy/alerts"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/support"
)

const long = `Writes an archive that shows the state of the installation to a person who helps: versions, configuration by
class, policies, health, metrics, plans, jobs, dead letters, running statements and the last lines of the log. Secrets and
e-mail addresses are masked, and the server makes no archive in which it finds one of its secrets. Nothing is sent
anywhere. Read the archive before you pass it on: it names nodes, tenants and projects, or pseudonyms of them.

--dry-run lists what an archive would contain. --explain reads an archive, without a server, and names the runbooks for
what it shows.`

// NewSupportBundle returns the command support-bundle.
func NewSupportBundle(a *output.Console) *cobra.Command {
	var file, explain string
	var pseudonyms, dryRun bool
	cmd := &cobra.Command{
		Use: "support-bundle", Short: "Create or explain a support bundle", Long: long, Args: cobra.NoArgs,
		Example: "  gpuaas support-bundle -f bundle.tar.gz --pseudonyms\n  gpuaas support-bundle --explain bundle.tar.gz",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if explain != "" {
				return explainFile(a, explain)
			}
			return create(cmd.Context(), a, file, pseudonyms, dryRun)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "file to write (default: gpuaas-support-TIME.tar.gz)")
	f.BoolVar(&pseudonyms, "pseudonyms", false, "replace the names of people, tenants, projects and nodes by pseudonyms")
	f.BoolVar(&dryRun, "dry-run", false, "list the content, and write no file")
	f.StringVar(&explain, "explain", "", "read this bundle, and name the runbooks for what it shows")
	cmd.MarkFlagsMutuallyExclusive("explain", "file")
	cmd.MarkFlagsMutuallyExclusive("explain", "pseudonyms")
	cmd.MarkFlagsMutuallyExclusive("explain", "dry-run")
	cmd.MarkFlagsMutuallyExclusive("file", "dry-run")
	return cmd
}

func create(ctx context.Context, a *output.Console, file string, pseudonyms, dryRun bool) error {
	c, err := client.Connect(a)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := c.CopyExport(ctx, "application/gzip", func(ctx context.Context) (*http.Response, error) {
		return c.GetSupportBundle(ctx, &oapi.GetSupportBundleParams{Pseudonyms: &pseudonyms})
	}, &archive); err != nil {
		return err
	}
	b, err := support.Open(archive.Bytes())
	if err != nil {
		return err
	}
	if !dryRun {
		if file == "" {
			file = "gpuaas-support-" + b.CreatedAt.UTC().Format("20060102T150405Z") + ".tar.gz"
		}
		if _, err := client.WriteWhole(file, func(to io.Writer) (int64, error) { return archive.WriteTo(to) }); err != nil {
			return err
		}
		a.Notify("%s %s: %d files; nothing was sent", output.SymbolGood, file, len(b.Files))
	}
	return showContent(a, b)
}

func showContent(a *output.Console, b support.Bundle) error {
	t := output.Table{Head: []string{"FILE", "BYTES", "REDACTIONS", "CONTENT"}}
	for _, f := range b.Files {
		note := f.Meaning
		if f.Truncated {
			note += " Truncated."
		}
		t.Add("file/"+f.Name, output.CellText(f.Name), strconv.Itoa(f.Bytes), strconv.Itoa(f.Redactions), output.CellText(note))
	}
	for _, o := range b.Omitted {
		t.Add("file/"+o.Name, output.CellText(o.Name), "-", "-", output.CellText("Omitted: "+o.Reason))
	}
	document, err := output.Encode(b.Manifest)
	if err != nil {
		return err
	}
	return a.Show(document, t)
}

func explainFile(a *output.Console, path string) error {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return errs.Invalid("--explain", "the file cannot be read").Because(err)
	}
	defer f.Close() //nolint:errcheck // read only
	archive, err := io.ReadAll(io.LimitReader(f, support.MostBytes+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	b, err := support.Open(archive)
	if err != nil {
		return err
	}
	all, err := alerts.Rules()
	if err != nil {
		return err
	}
	rules := make([]support.Rule, len(all))
	for i, r := range all {
		rules[i] = support.Rule(r)
	}
	hints := support.Explain(b, rules)
	t := output.Table{Head: []string{"RUNBOOK", "BECAUSE"}}
	for _, h := range hints {
		t.Add("runbook/"+h.Runbook, output.CellText(h.Runbook), output.CellText(h.Reason))
	}
	document, err := output.Encode(map[string]any{"manifest": b.Manifest, "hints": hints})
	if err != nil {
		return err
	}
	a.Notify("Bundle of %s, version %s, of %s: %s", output.CellText(b.Environment), output.CellText(b.Version), b.CreatedAt.UTC().Format("2006-01-02 15:04:05Z"), output.CountOf(len(hints), "hint"))
	return a.Show(document, t)
}
