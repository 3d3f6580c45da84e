package layout_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/e2e/layout"
)

// row is a box that is the same at each size of a successful screen.
func row(change ...func(*layout.Box)) (r layout.Row) {
	b := layout.Box{Label: `section "Balance"`, Depth: 1, Controls: 2, X: 20, W: 280, Gap: 20, H: 120}
	for _, c := range change {
		c(&b)
	}
	for range layout.SizesOf("success") {
		r = append(r, b)
	}
	return r
}

// A text with every kind of row is read as it was written.
func TestASnapshotIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()

	states := []string{"loading", "success", "empty"}
	of := map[string][]layout.Row{
		"loading": {},
		"empty":   {row()[:1]},
		"success": {row(), row(func(b *layout.Box) { b.Gap, b.Controls, b.Depth = layout.SameRow, 0, 0 }), row(func(b *layout.Box) { b.Label, b.Depth = `details "Columns (5 of 6)"`, 3 })},
	}
	text := layout.Format(states, of)
	got, err := layout.Parse(text)
	if err != nil || !reflect.DeepEqual(got, of) {
		t.Errorf("%v\n%v, from\n%s", err, got, text)
	}
	if faults := layout.Check(text, states, of); len(faults) != 0 {
		t.Errorf("%q", faults)
	}
	for name, broken := range map[string]string{
		"no state": "  h1 | 1 2 3 4 | 1 2 3 4 | 1 2 3 4", "no size": "success\n  h1", "four sizes": "success\n  h1 | 1 2 3 4 | 1 2 3 4 | 1 2 3 4 | 1 2 3 4", "three numbers": "success\n  h1 | 1 2 3", "a text": "success\n  h1 | 1 2 3 x | 1 2 3 4 | 1 2 3 4",
	} {
		if _, err := layout.Parse(broken); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The tolerances accept another font, and nothing else.
func TestAChangedLayoutIsFound(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		change func(*layout.Box)
		found  string
	}{
		"nothing":            {func(*layout.Box) {}, ""},
		"another font":       {func(b *layout.Box) { b.H += 40; b.X++; b.W -= 2 }, ""},
		"twice as high":      {func(b *layout.Box) { b.H *= 2 }, "is 240 high"},
		"narrower":           {func(b *layout.Box) { b.W -= 10 }, "270 wide"},
		"moved":              {func(b *layout.Box) { b.X += 6 }, "begins at 26"},
		"without a distance": {func(b *layout.Box) { b.Gap = 0 }, "has the gap 0"},
		"in a row":           {func(b *layout.Box) { b.Gap = layout.SameRow }, "has the gap -"},
		"another name":       {func(b *layout.Box) { b.Label = "section" }, "in the place of"},
		"without a button":   {func(b *layout.Box) { b.Controls = 1 }, "has 1 controls"},
		"in another box":     {func(b *layout.Box) { b.Depth = 0 }, "in the place of"},
	} {
		faults := layout.Compare([]layout.Row{row()}, []layout.Row{row(c.change)})
		if got := strings.Join(faults, "; "); c.found == "" && got != "" || !strings.Contains(got, c.found) || c.found != "" && len(faults) != len(row()) {
			t.Errorf("%s: %q, want %q", name, got, c.found)
		}
	}
	for name, got := range map[string][]layout.Row{"a missing box": nil, "a missing size": {row()[:1]}} {
		if faults := layout.Compare([]layout.Row{row()}, got); len(faults) != 1 {
			t.Errorf("%s: %q", name, faults)
		}
	}
}

// A state that is missing, or that no run measures, is found.
func TestTheStatesOfASnapshotAreThoseMeasured(t *testing.T) {
	t.Parallel()

	of := map[string][]layout.Row{"success": {row()}}
	text := layout.Format([]string{"success"}, of)
	for name, c := range map[string]struct {
		states []string
		of     map[string][]layout.Row
	}{
		"another state":         {[]string{"success", "empty"}, map[string][]layout.Row{"success": {row()}, "empty": {row()}}},
		"the state is not left": {[]string{"success"}, nil},
		"an unknown state":      {[]string{"empty"}, nil},
	} {
		if faults := layout.Check(text, c.states, c.of); len(faults) != 1 {
			t.Errorf("%s: %q", name, faults)
		}
	}
}

// Sizes with other boxes have no common rows.
func TestEachSizeHasTheSameBoxes(t *testing.T) {
	t.Parallel()

	one := layout.Measured{Boxes: []layout.Box{{Label: "h1"}}, Faults: []string{"the page is 400 px wide"}}
	rows, faults := layout.Rows([]layout.Measured{one, {Boxes: one.Boxes}, {Boxes: one.Boxes}})
	if len(rows) != 1 || len(rows[0]) != 3 || len(faults) != 1 || faults[0] != "320 px: the page is 400 px wide" {
		t.Errorf("%v %q", rows, faults)
	}
	for name, other := range map[string]layout.Measured{"none": {}, "another": {Boxes: []layout.Box{{Label: "form"}}}, "two": {Boxes: []layout.Box{{Label: "h1"}, {Label: "form"}}}} {
		if rows, faults := layout.Rows([]layout.Measured{one, {Boxes: one.Boxes}, other}); rows != nil || len(faults) != 2 {
			t.Errorf("%s: %v %q", name, rows, faults)
		}
	}
}

// Each state has a reply for each operation, and the states differ as they should.
func TestReplies(t *testing.T) {
	t.Parallel()

	for _, state := range layout.States {
		replies, err := layout.Replies(state)
		if err != nil || len(replies) < 200 {
			t.Fatalf("%s: %d replies, %v", state, len(replies), err)
		}
		found := map[string]bool{}
		for _, r := range replies {
			found[r.Method+" "+r.Path] = true
			if r.Path == "^/api/v1/allocations$" && r.Method == http.MethodGet {
				checkAllocations(t, state, r)
			}
		}
		if !found["GET ^/api/v1/allocations/[^/]+/logs$"] {
			t.Errorf("%s: a path with a parameter has no pattern", state)
		}
	}
}

func checkAllocations(t *testing.T, state string, r layout.Reply) {
	t.Helper()
	body, _ := r.Body.(map[string]any)
	items, isList := body["items"].([]any)
	want := map[string]int{"loading": 0, "error": 409, "restricted": 403, "rate_limited": 429}
	if status, fails := want[state]; fails {
		if r.Status != status || isList {
			t.Errorf("%s: %+v", state, r)
		}
		return
	}
	if r.Status != 200 || !isList || (len(items) == 0) != (state == "empty") {
		t.Fatalf("%s: %+v", state, r)
	}
	if state == "overlong" {
		first, _ := items[0].(map[string]any)
		name, _ := first["name"].(string)
		id, _ := first["id"].(string)
		if len(name) != 255 || len(id) != 36 {
			t.Errorf("the name %q of %q", name, id)
		}
	}
}
