package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate"
)

func newValidate(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "validate DIR", Short: "Check the files of a fleet; needs no server", Args: cobra.ExactArgs(1),
		Example: "  gpuaas validate environments/dev",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.validate(cmd.Context(), args[0]) },
	}
}

// validated is the answer as data.
type validated struct {
	Valid    bool              `json:"valid"`
	Files    int               `json:"files"`
	Objects  map[string]int    `json:"objects"`
	Findings []desired.Finding `json:"findings"`
}

func (a *app) validate(ctx context.Context, dir string) error {
	files, err := readTree(dir)
	if err != nil {
		return err
	}
	result, err := validate.Run(ctx, files)
	if err != nil {
		return fmt.Errorf("validating %s: %w", dir, err)
	}
	v := validated{Valid: result.OK(), Files: len(files), Objects: map[string]int{}, Findings: []desired.Finding{}}
	for _, o := range result.Objects {
		v.Objects[string(o.Kind)]++
	}
	for _, f := range result.Findings {
		// As the person would open it, from where the person stands.
		f.Path = filepath.Join(dir, filepath.FromSlash(f.Path))
		v.Findings = append(v.Findings, f)
	}
	if err := a.showValidated(dir, v); err != nil {
		return err
	}
	if v.Valid {
		return nil
	}
	return &failure{
		Message: fmt.Sprintf("%s has %s", dir, count(len(v.Findings), "finding")), Code: codeFindings,
		Try: "correct the places above", Exit: exitFailure,
	}
}

func (a *app) showValidated(dir string, v validated) error {
	if a.data() {
		document, err := encode(v)
		if err != nil {
			return err
		}
		return a.show(document, table{})
	}
	var b strings.Builder
	for _, f := range v.Findings {
		fmt.Fprintln(&b, f)
	}
	if v.Valid {
		var kinds []string
		for _, kind := range desired.Kinds() {
			if n := v.Objects[string(kind)]; n > 0 {
				kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
			}
		}
		fmt.Fprintf(&b, "%s ok: %s in %s: %s\n", symbolGood, dir, count(v.Files, "file"), strings.Join(kinds, ", "))
	}
	_, err := fmt.Fprint(a.Out, b.String())
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Far above the largest fleet that one folder should hold, far below what would
// hurt: somebody who names the wrong folder learns it at once.
const treeLimit = 16 << 20

// readTree reads what validate would read from a commit: no hidden files, no
// links, because Git stores the link and not what it points to.
func readTree(dir string) (map[string][]byte, error) {
	if found, err := os.Stat(dir); err != nil || !found.IsDir() {
		f := usage("%s is no folder", dir)
		f.Try = "gpuaas validate environments/dev"
		return nil, f
	}
	files, size := map[string][]byte{}, 0
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.Type().IsRegular() || !validate.Readable(path):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		if size += len(text); size > treeLimit {
			return fmt.Errorf("more than %d MiB of declarations", treeLimit>>20)
		}
		files[path] = text
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	return files, nil
}
