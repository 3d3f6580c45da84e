// Package ci carries what a fleet's repository runs at its forge: validation, the
// plan of each pull request, and its comment. It only carries the files.
package ci

import (
	"embed"
	"fmt"
)

//go:embed github gitlab gitea
var files embed.FS

// The path at which each forge reads it.
var places = map[string]string{
	"github": ".github/workflows/gpuaas.yaml",
	"gitlab": ".gitlab-ci.yml",
	"gitea":  ".gitea/workflows/gpuaas.yaml",
}

// Forges lists the forges that there is a file for.
func Forges() []string { return []string{"github", "gitlab", "gitea"} }

// File is the pipeline of one forge, with its path in the repository.
func File(forge string) (path string, text []byte, err error) {
	if text, err = files.ReadFile(forge + "/gpuaas.yaml"); err != nil {
		return "", nil, fmt.Errorf("reading what %s runs: %w", forge, err)
	}
	return places[forge], text, nil
}
