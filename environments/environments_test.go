package environments

import (
	"os"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// The binary carries every declaration of the folder, under its path.
func TestFiles(t *testing.T) {
	t.Parallel()
	files, err := Files("dev")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("dev")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(files) {
		t.Errorf("%d files embedded, %d in the folder", len(files), len(entries))
	}
	for _, e := range entries {
		if len(files["environments/dev/"+e.Name()]) == 0 {
			t.Errorf("%s is not embedded", e.Name())
		}
	}
	if _, err := Files("nowhere"); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("error is %v", err)
	}
}
