package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = ".."

// page is one Markdown file, with prose and code apart.
type page struct {
	path  string // below the root, with slashes
	text  string
	prose []line // without fenced blocks
	code  []line // the lines of fenced blocks, and inline code
}

type line struct {
	number int
	text   string
}

// unread lists folders with Markdown of other projects.
var unread = map[string]bool{"bin": true, "dist": true, "node_modules": true, "testdata": true, "result": true}

func pages(t *testing.T) (all []page) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (unread[d.Name()] || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".md"):
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		all = append(all, parse(filepath.ToSlash(rel), read(t, filepath.ToSlash(rel))))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d Markdown files below %s: this test reads the wrong folder", len(all), root)
	}
	return all
}

var inline = regexp.MustCompile("`([^`]+)`")

func parse(path, text string) page {
	p := page{path: path, text: text}
	fenced := false
	for i, l := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(strings.TrimSpace(l), "```"):
			fenced = !fenced
		case fenced:
			p.code = append(p.code, line{i + 1, l})
		default:
			for _, match := range inline.FindAllStringSubmatch(l, -1) {
				p.code = append(p.code, line{i + 1, match[1]})
			}
			p.prose = append(p.prose, line{i + 1, l})
		}
	}
	return p
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
