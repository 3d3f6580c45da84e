// Package environments contains the desired objects of each environment: its profile, its catalogue, its
// fleet, and the policies that differ from their defaults. It only embeds the files, so that a binary
// without a checkout has them, too.
package environments

import (
	"embed"
	"fmt"
	"io/fs"

	"github.com/gpuaas/gpuaas/internal/errs"
)

//go:embed */*.cue
var folders embed.FS

// Files returns the files of one environment by their path in the repository,
// as validation and error messages name them.
func Files(name string) (map[string][]byte, error) {
	entries, err := fs.ReadDir(folders, name)
	if err != nil {
		return nil, errs.New(errs.NotFound, "no environment is named %q", name).Because(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		body, err := fs.ReadFile(folders, name+"/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading embedded environment: %w", err)
		}
		files["environments/"+name+"/"+e.Name()] = body
	}
	return files, nil
}

// Names lists the environments that there are.
func Names() []string {
	entries, err := folders.ReadDir(".")
	if err != nil {
		return nil // embedded: it is there
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}
