// Package scaffold makes the files of a new fleet's repository: one environment,
// examples, the schema for editors, and what its forge runs.
package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"text/template"

	"github.com/gpuaas/gpuaas/cue"
	"github.com/gpuaas/gpuaas/deploy/ci"
)

//go:embed files
var files embed.FS

// Options are the values in which fleets differ.
type Options struct {
	Environment, Region, TrustDomain string
	Forge                            string
	Source                           string // name of the Git source on the server
	Version                          string // of the programs that CI installs; empty: the user sets it
}

// values are the values of the templates.
type values struct {
	Options

	Host, API, CI, CIVariables string
}

var hosts = map[string]values{
	"github": {Host: "github.com", API: "api.github.com", CIVariables: "The workflow plans once the repository has the variables `GPUAAS_URL` and `GPUAAS_SERVICE_ACCOUNT`."},
	"gitlab": {Host: "gitlab.com", API: "gitlab.com", CIVariables: "The pipeline plans once the project has the variables `GPUAAS_URL` and `GPUAAS_SERVICE_ACCOUNT`."},
	"gitea":  {Host: "git.example.com", API: "git.example.com", CIVariables: "The workflow plans once the repository has the variable `GPUAAS_URL` and the secret `GPUAAS_TOKEN`."},
}

// Files are the repository's, by path.
func Files(o Options) (map[string][]byte, error) {
	at, runs, err := ci.File(o.Forge)
	if err != nil {
		return nil, err
	}
	known := hosts[o.Forge]
	known.Options, known.CI = o, at
	all := map[string][]byte{at: forEnvironment(runs, o), "schema/gpuaas.schema.json": cue.JSONSchema}
	err = fs.WalkDir(files, "files", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := known.fill(name)
		all[place(name, o)] = text
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("filling in the scaffold: %w", err)
	}
	rules, err := fs.Glob(cue.Schema, "schema/*.cue")
	if err != nil {
		return nil, fmt.Errorf("listing the schema: %w", err)
	}
	for _, name := range rules {
		if all[name], err = cue.Schema.ReadFile(name); err != nil {
			return nil, fmt.Errorf("reading the schema: %w", err)
		}
	}
	return all, nil
}

// place returns the path of a template's output.
func place(name string, o Options) string {
	name = strings.TrimPrefix(name, "files/")
	if name == "settings.json" {
		return ".vscode/settings.json"
	}
	if dir, base := path.Split(name); dir == "environment/" {
		return "environments/" + o.Environment + "/" + base
	}
	return name
}

func (w values) fill(name string) ([]byte, error) {
	t, err := template.New(path.Base(name)).Option("missingkey=error").ParseFS(files, name)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = t.Execute(&text, w)
	return text.Bytes(), err
}

// forEnvironment sets the variables at the top of each file. Without a version the user sets it.
func forEnvironment(text []byte, o Options) []byte {
	text = bytes.Replace(text, []byte("GPUAAS_ENVIRONMENT: production"), []byte("GPUAAS_ENVIRONMENT: "+o.Environment), 1)
	text = bytes.Replace(text, []byte("GPUAAS_SOURCE: fleet"), []byte("GPUAAS_SOURCE: "+o.Source), 1)
	if o.Version == "" {
		return text
	}
	return bytes.Replace(text, []byte(`GPUAAS_VERSION: "" # required: the`), []byte(`GPUAAS_VERSION: "`+o.Version+`" # the`), 1)
}
