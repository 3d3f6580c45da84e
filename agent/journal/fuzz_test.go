package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// FuzzRecord: a file of the journal that is not what the agent has written is damaged, and no record of another
// allocation.
func FuzzRecord(f *testing.F) {
	id := ids.New[ids.Allocation]()
	body := []byte(`{"allocation_id":"` + id.String() + `","tasks":[{"envelope":{}}]}`)
	f.Add(append(append(append([]byte{}, body...), '\n'), sum(body)...))
	f.Add(body)
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), recordPrefix+id.String()+recordSuffix)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := readRecord(file)
		if err != nil {
			return
		}
		if r.Allocation != id || len(r.Tasks) == 0 {
			t.Errorf("%q: %+v", text, r)
		}
		_, _ = r.AllocationParams() // of whatever task
	})
}
