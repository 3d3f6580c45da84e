package backup

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// TestUnpackStaysInside: a signed archive with such a path needs the signing key, and still leaves the folder alone.
func TestUnpackStaysInside(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]tar.Header{
		"parent":    {Name: "../outside", Typeflag: tar.TypeReg},
		"inner":     {Name: "base/../../outside", Typeflag: tar.TypeReg},
		"absolute":  {Name: "/outside", Typeflag: tar.TypeReg},
		"unclean":   {Name: "base//file", Typeflag: tar.TypeReg},
		"empty":     {Name: "", Typeflag: tar.TypeReg},
		"link":      {Name: "link", Linkname: "/etc", Typeflag: tar.TypeSymlink},
		"hard link": {Name: "link", Linkname: "../outside", Typeflag: tar.TypeLink},
		"device":    {Name: "device", Typeflag: tar.TypeChar},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text bytes.Buffer
			w := tar.NewWriter(&text)
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			parent := t.TempDir()
			root := openRoot(t, filepath.Join(parent, "data"))
			if err := unpack(&text, root); errs.CodeOf(err) != errs.ValidationError {
				t.Errorf("%v", err)
			}
			for _, dir := range []string{parent, root.Name()} {
				if entries, _ := os.ReadDir(dir); len(entries) > 1 || len(entries) == 1 && entries[0].Name() != "data" {
					t.Errorf("%s contains %v", dir, entries)
				}
			}
		})
	}
}

func openRoot(t *testing.T, dir string) *os.Root {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}
