package desired_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/desired"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	const spec = `{"sku": "h100", "gpus": 8, "serials": ["a", "b"], "price": {"currency": "EUR", "amountMinor": 249}}`
	for name, c := range map[string]struct {
		applied string
		want    []desired.FieldDifference
	}{
		"the sequence of keys is no difference": {`{"gpus":8,"price":{"amountMinor":249,"currency":"EUR"},"serials":["a","b"],"sku":"h100"}`, nil},
		"a nested number": {
			`{"sku": "h100", "gpus": 8, "serials": ["a", "b"], "price": {"currency": "EUR", "amountMinor": 1}}`,
			[]desired.FieldDifference{{Field: "spec.price.amountMinor", Desired: "249", Applied: "1"}},
		},
		"a list differs as a whole": {
			`{"sku": "h100", "gpus": 8, "serials": ["a"], "price": {"currency": "EUR", "amountMinor": 249}}`,
			[]desired.FieldDifference{{Field: "spec.serials", Desired: `["a","b"]`, Applied: `["a"]`}},
		},
		"an absent field and a surplus one": {
			`{"gpus": 8, "serials": ["a", "b"], "price": {"currency": "EUR", "amountMinor": 249}, "rack": "r7"}`,
			[]desired.FieldDifference{{Field: "spec.sku", Desired: "h100"}, {Field: "spec.rack", Applied: "r7"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := desired.Differences(json.RawMessage(spec), json.RawMessage(c.applied))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := desired.Differences(json.RawMessage(spec), json.RawMessage(`{`)); err == nil {
		t.Error("an applied spec that is no JSON has no differences")
	}
}

// TestDifferencesOfType finds a value whose text is right and whose JSON type is wrong: no reader of the
// applied spec could decode it.
func TestDifferencesOfType(t *testing.T) {
	t.Parallel()
	found, err := desired.Differences([]byte(`{"gpus":8,"cordoned":true,"name":"a"}`), []byte(`{"gpus":"8","cordoned":"true","name":"a","absent":""}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []desired.FieldDifference{{Field: "spec.cordoned", Desired: "true", Applied: `"true"`}, {Field: "spec.gpus", Desired: "8", Applied: `"8"`}}
	if !slices.Equal(found, want) {
		t.Errorf("%+v", found)
	}
}
