package response_test

import (
	"net/url"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// TestCursorsSurviveARotation: a position is readable while its key is in the ring, in its list and tenant only.
func TestCursorsSurviveARotation(t *testing.T) {
	t.Parallel()
	first, second := envelope.NewKey(), envelope.NewKey()
	ring, err := envelope.NewRing(map[string][]byte{"1": first}, "1")
	if err != nil {
		t.Fatal(err)
	}
	cursors := response.Cursors{Keys: ring, Clock: clock.Clock{}}
	call := func(path string) *request.Call {
		return &request.Call{Context: t.Context(), URL: &url.URL{Path: path}, Tenant: "one"}
	}
	list, other := call("/api/v1/allocations"), call("/api/v1/nodes")
	_, next, _, err := response.CutPage(cursors, list, 1, []int{7, 8}, func(n int) any { return n })
	if err != nil {
		t.Fatal(err)
	}
	opens := func(at *request.Call) bool {
		var place int
		err := cursors.Open(at, next, &place)
		if err != nil && errs.CodeOf(err) != errs.CursorInvalid || err == nil && place != 7 {
			t.Errorf("%d, %v", place, err)
		}
		return err == nil
	}
	foreign := call("/api/v1/allocations")
	foreign.Tenant = "two"
	if !opens(list) || opens(other) || opens(foreign) {
		t.Error("a position is not bound to its list and tenant")
	}
	if err := ring.Replace(map[string][]byte{"1": first, "2": second}, "2"); err != nil || !opens(list) {
		t.Errorf("the position ends with begin: %v", err)
	}
	if err := ring.Replace(map[string][]byte{"2": second}, "2"); err != nil || opens(list) {
		t.Errorf("the position outlives its key: %v", err)
	}
}
