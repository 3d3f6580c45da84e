package rest

import (
	"testing"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// The short way must be taken by what is on every write; a change of the contract
// could close it without a word.
func TestHeadersOfWritesAreOnlyBounded(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	all, err := operationsOf(doc)
	if err != nil {
		t.Fatal(err)
	}
	op := all[route{"POST", "/api/v1/allocations"}]
	for name, most := range map[string]uint64{"X-Project-ID": 63, "X-Idempotency-Key": 255, "Idempotency-Key": 257} {
		if got := op.bounded[name]; got != (bounds{1, most}) {
			t.Errorf("%s is bounded by %v", name, got)
		}
	}
	if len(op.bounded) != 3 {
		t.Errorf("got %v", op.bounded)
	}
}
