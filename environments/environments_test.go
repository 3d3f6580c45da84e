package environments

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// The binary carries every declaration of each folder, under its path.
func TestFiles(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"demo", "dev", "kind", "production", "staging"}, Names()); diff != "" {
		t.Error(diff)
	}
	for _, name := range Names() {
		files, err := Files(name)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != len(files) {
			t.Errorf("%d files of %s embedded, %d in the folder", len(files), name, len(entries))
		}
		for _, e := range entries {
			if len(files["environments/"+name+"/"+e.Name()]) == 0 {
				t.Errorf("%s/%s is not embedded", name, e.Name())
			}
		}
	}
	if _, err := Files("nowhere"); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("error is %v", err)
	}
}
