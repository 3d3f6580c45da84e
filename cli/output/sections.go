package output

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// Section is a part of a description: a title over facts or over a table.
type Section struct {
	Title  string
	Fields [][2]string
	Table  Table
}

// Describe prints documents of the API as one, or sections for people.
func (a *Console) Describe(name string, parts map[string]json.RawMessage, sections ...Section) error {
	if a.Data() || a.Format() == "name" {
		document, err := encodeParts(parts)
		if err != nil {
			return err
		}
		return a.Show(document, Table{Names: []string{name}})
	}
	return a.Write(a.Sections(sections...))
}

// Sections is a description as people read it.
func (a *Console) Sections(sections ...Section) string {
	var b strings.Builder
	for i, s := range sections {
		if s.Title != "" {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(s.Title + "\n")
		}
		for _, f := range s.Fields {
			fmt.Fprintf(&b, "%-13s%s\n", f[0], OrDash(f[1]))
		}
		switch {
		case len(s.Table.Rows) > 0:
			for line := range strings.Lines(a.Render(s.Table)) {
				b.WriteString("  " + line)
			}
		case len(s.Fields) == 0:
			b.WriteString("  none\n")
		}
	}
	return b.String()
}

func ConditionTable(all []oapi.Condition) Table {
	t := Table{Head: []string{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}}
	for _, c := range all {
		t.Add("", string(c.Type), ConditionSymbol(c.Status), OrDash(string(c.Reason)), FormatTime(c.LastTransitionTime), OrDash(c.Message))
	}
	return t
}

func OrNull(r json.RawMessage) json.RawMessage {
	if len(r) == 0 {
		return json.RawMessage("null")
	}
	return r
}
