package web_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sources lists the inputs of the bundle; web/scripts/deliver.mjs computes the same sum.
var sources = []string{"index.html", "package.json", "package-lock.json", "public", "scripts", "src", "tsconfig.json", "vite.config.ts"}

// TestBundleIsCurrent compares web/dist with its sources, without Node. A changed source needs `make portal`; a file of
// the bundle that was changed by hand or by a merge does, too.
func TestBundleIsCurrent(t *testing.T) {
	t.Parallel()

	want, err := os.ReadFile("dist/SOURCE")
	if _, errPage := os.Stat("dist/index.html"); err != nil && errPage != nil {
		t.Skip("the bundle is not built: make portal")
	}
	got := fmt.Sprintf("sources %s\nbundle %s\n", sumOf(t, sources...), sumOf(t, "dist"))
	if got != string(want) {
		t.Errorf("web/dist is not what its sources make: run `make portal`\ncomputed\n%srecorded\n%s", got, want)
	}
}

func sumOf(t *testing.T, roots ...string) string {
	t.Helper()
	var files []string
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".gen.ts") && path != "dist/SOURCE" {
				files = append(files, filepath.ToSlash(path))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(files)
	all := sha256.New()
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(all, "%s  %s\n", hex.EncodeToString(sum[:]), path)
	}
	return hex.EncodeToString(all.Sum(nil))
}
