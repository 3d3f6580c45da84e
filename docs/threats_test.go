package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The threat model names tests. A test that was renamed or deleted must not stay in it.
func TestThreatModelNamesExistingTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	test := regexp.MustCompile(`(?m)^func (Test\w+)`)
	err = filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range test.FindAllSubmatch(source, -1) {
			declared[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(text), -1)
	for _, m := range named {
		if !declared[m[1]] {
			t.Errorf("no test is named %s", m[1])
		}
	}
	if len(named) < 30 {
		t.Errorf("only %d tests are named", len(named))
	}
}
