package alloc

import (
	"testing"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func TestMountsOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		path, at string
		mode     oapi.AllocationMountMode
	}{
		"data:mnt":      {"data", "mnt", oapi.Rw},
		"data:mnt:ro":   {"data", "mnt", oapi.Ro},
		":all:rw":       {"", "all", oapi.Rw},
		"a:b:mnt:ro":    {"a:b", "mnt", oapi.Ro},
		"data:ro":       {"data", "ro", oapi.Rw},
		"data":          {},
		"data:":         {},
		"data:mnt:or":   {},
		"data:mnt:ro:x": {},
	} {
		list, err := mountsOf([]string{text})
		if want.at == "" {
			if err == nil {
				t.Errorf("%q was accepted as %+v", text, list)
			}
			continue
		}
		if err != nil || len(list) != 1 || *list[0].Path != want.path || list[0].At != want.at || *list[0].Mode != want.mode {
			t.Errorf("%q: %+v, %v", text, list, err)
		}
	}
}
