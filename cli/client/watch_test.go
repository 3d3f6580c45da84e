package client

import (
	"bytes"
	"testing"

	"github.com/gpuaas/gpuaas/cli/output"
)

// A watch prints new and changed items once, whatever their age, and names what is gone.
func TestAWatchPrintsWhatHasChanged(t *testing.T) {
	t.Parallel()
	type item struct{ Name, State string }
	age := 0
	show := func(_ *output.Console, all ...item) output.Table {
		table := output.Table{Head: []string{"NAME", "STATE", "AGE"}}
		for _, i := range all {
			age++
			table.Add("item/"+i.Name, i.Name, i.State, string(rune('a'+age)))
		}
		return table
	}
	var out, err bytes.Buffer
	a := &output.Console{Out: &out, Err: &err, NoHeaders: true, Output: "name", Env: func(string) string { return "" }}
	earlier := map[string]string{}
	for _, step := range []struct {
		items    []item
		out, err string
	}{
		{[]item{{"x", "new"}, {"y", "new"}}, "item/x\nitem/y\n", ""},
		{[]item{{"x", "new"}, {"y", "new"}}, "", ""},
		{[]item{{"x", "active"}, {"y", "new"}}, "item/x\n", ""},
		{[]item{{"y", "new"}, {"z", "new"}}, "item/z\n", "item/x is gone\n"},
		{[]item{{"x", "active"}, {"y", "new"}, {"z", "new"}}, "item/x\n", ""},
	} {
		out.Reset()
		err.Reset()
		if failed := showChanged(a, earlier, step.items, show); failed != nil || out.String() != step.out || err.String() != step.err {
			t.Errorf("%v: %q, %q, %v", step.items, out.String(), err.String(), failed)
		}
	}
}
