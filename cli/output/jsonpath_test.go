package output

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/spf13/cobra"
)

// -o csv and -o jsonpath print for programs what the table and the document have.
func TestOutputsForPrograms(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{"items":[{"name":"a","gpus":2,"cost":{"amount_minor":9007199254740993}},{"name":"b"}]}`)
	table := Table{Head: []string{"NAME", "SIGNED IN"}, Wide: []string{"ID"}}
	table.Add("x/a", "a, b", "=1+1", "7")
	table.Add("x/b", "-", "", "8")
	for format, want := range map[string]string{
		"csv":                                    "name,signed_in,id\n\"a, b\",'=1+1,7\n-,,8\n",
		"jsonpath={.items[*].name}":              "a b\n",
		"jsonpath=.items[0].gpus":                "2\n",
		"jsonpath={.items[0].cost.amount_minor}": "9007199254740993\n",
		"jsonpath={range .items[*]}{.name}{\"\\n\"}{end}": "a\nb\n",
		"jsonpath={.none}": "",
	} {
		var b bytes.Buffer
		a := &Console{Out: &b, Err: &b, Output: format, Env: func(string) string { return "" }}
		if err := a.CheckOutput(&cobra.Command{}); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if err := a.Show(raw, table); err != nil || b.String() != want {
			t.Errorf("%s: %q, %v", format, b.String(), err)
		}
	}
	for _, cell := range []string{"=1", "+1", "-1", "@a", "\t=1", "\r=1"} { // a spreadsheet would calculate it
		if got := inert(cell); got != "'"+cell {
			t.Errorf("%q becomes %q", cell, got)
		}
	}
	for _, format := range []string{"jsonpath={.items[", "jsonpath=TEMPLATE}{", "xml"} {
		a := &Console{Output: format, Env: func(string) string { return "" }}
		if err := a.CheckOutput(&cobra.Command{}); err == nil {
			t.Errorf("%s is accepted", format)
		}
	}
}
