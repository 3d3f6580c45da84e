package lsn_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/gpuaas/gpuaas/platform/backup/lsn"
)

func TestPositions(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"} {
		at, err := lsn.Parse(text)
		if err != nil || at.String() != text {
			t.Errorf("%s: %s, %v", text, at, err)
		}
	}
	for _, text := range []string{"", "/", "1", "1/", "/1", "g/1", "1/-1", "1/100000000", "1/1/1"} {
		if at, err := lsn.Parse(text); err == nil {
			t.Errorf("%q is accepted as %s", text, at)
		}
		if err := json.Unmarshal([]byte(`"`+text+`"`), new(lsn.LSN)); err == nil {
			t.Errorf("%q is accepted in JSON", text)
		}
	}
}

func TestSegments(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	parse := func(s string) lsn.LSN { l, _ := lsn.Parse(s); return l }
	got := lsn.Names(1, parse("0/FE000028"), parse("1/1000000"), size)
	if want := []string{"0000000100000000000000FE", "0000000100000000000000FF", "000000010000000100000000"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, name := range got {
		if timeline, number := lsn.Split(name, size); lsn.Name(timeline, number, size) != name {
			t.Errorf("%s: timeline %d, number %d", name, timeline, number)
		}
	}
	for name, want := range map[string]bool{
		"0000000100000000000000FE": true, "00000002.history": true, "0000000100000000000000FE.00000028.backup": true, "0000000100000000000000FE.partial": true,
		"0000000100000000000000fe": false, "../0000000100000000000000FE": false, "00000002.history.": false, "": false,
	} {
		if lsn.IsFile(name) != want {
			t.Errorf("IsFile(%q) = %v", name, !want)
		}
	}
}
