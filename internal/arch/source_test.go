package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/gpuaas/gpuaas"

const root = "../.."

// file is one Go source of ours.
type file struct {
	path    string // below the root, with slashes
	pkg     string // its folder, which is its import path without the module
	test    bool
	syntax  *ast.File
	imports []string
}

// unwalked are folders without packages of this module.
var unwalked = map[string]bool{"bin": true, "dist": true, "node_modules": true, "testdata": true, "tools": true, "result": true}

// walk calls visit for every file of the repository that could be source.
func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (unwalked[d.Name()] || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sources parses all Go files.
func sources(t *testing.T) (files []file) {
	t.Helper()
	walk(t, func(path string) {
		if strings.HasSuffix(path, ".go") {
			files = append(files, parse(t, path))
		}
	})
	if len(files) < 20 {
		t.Fatalf("only %d Go files below %s: this test reads the wrong files", len(files), root)
	}
	return files
}

func parse(t *testing.T, path string) file {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	f := file{path: path, pkg: filepath.ToSlash(filepath.Dir(path)), test: strings.HasSuffix(path, "_test.go"), syntax: syntax}
	for _, spec := range syntax.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		f.imports = append(f.imports, name)
	}
	return f
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// under reports whether a slash-separated path is the folder or below it.
func under(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func underAny(path string, folders []string) bool {
	for _, folder := range folders {
		if under(path, folder) {
			return true
		}
	}
	return false
}
