package desired_test

import (
	"fmt"
	"testing"

	"github.com/gpuaas/gpuaas/desired"
)

func TestIgnoredDifferences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "[] <nil>",
		"/keys owner=ada until=2026-12-01": "[{/keys ada 2026-12-01 00:00:00 +0000 UTC}] <nil>",
		"/keys owner=ada":                  "[] /keys needs owner= and until=: drift is ignored by an owner and until a time",
		"/keys until=2026-12-01":           "[] /keys needs owner= and until=: drift is ignored by an owner and until a time",
		"keys owner=ada until=2026-12-01":  `[] "keys" is no JSON pointer: it begins with a slash`,
		"/keys owner=ada until=soon":       `[] "soon" is no time: write 2026-12-01 or 2026-12-01T18:00:00Z`,
		"/keys owner=ada for=3d":           `[] "for=3d" is neither owner= nor until=`,
		"/a owner=x until=2026-12-01T18:00:00Z; /b/c owner=y until=2027-01-01;": "[{/a x 2026-12-01 18:00:00 +0000 UTC} {/b/c y 2027-01-01 00:00:00 +0000 UTC}] <nil>",
	} {
		got, err := desired.IgnoredDifferences(text)
		if said := fmt.Sprint(got, " ", err); said != want {
			t.Errorf("%q:\ngot  %s\nwant %s", text, said, want)
		}
	}
}

func TestIgnoredDifferenceCovers(t *testing.T) {
	t.Parallel()
	for pointer, fields := range map[string]map[string]bool{
		"/keys":          {"keys": true, "keysmith": false, "access": false},
		"/spec":          {"spec.cordoned": true, "spec.price.amountMinor": true, "gpus": false},
		"/spec/price":    {"spec.price.amountMinor": true, "spec.prices": false},
		"/":              {"keys": true, "spec.cordoned": true},
		"/spec/cordoned": {"spec.cordoned": true, "spec": false},
	} {
		for field, want := range fields {
			if got := (desired.IgnoredDifference{Pointer: pointer}).Covers(field); got != want {
				t.Errorf("%s covers %s: %v", pointer, field, got)
			}
		}
	}
}
