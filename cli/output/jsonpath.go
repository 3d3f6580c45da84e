package output

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

const jsonPathPrefix = "jsonpath="

// parseJSONPath reads a template of kubectl, such as {.items[*].name}. The braces may be missing around a single path.
func parseJSONPath(template string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(template, "{") {
		template = "{" + template + "}"
	}
	p := jsonpath.New("output").AllowMissingKeys(true)
	if err := p.Parse(template); err != nil {
		e := UsageError("the template of -o jsonpath is not valid: %v", err)
		e.Try = "-o jsonpath='{.items[*].name}'"
		return nil, e
	}
	return p, nil
}

// showJSONPath prints what a template selects of the API's document.
func (a *Console) showJSONPath(raw json.RawMessage, template string) error {
	p, err := parseJSONPath(template)
	if err != nil {
		return err
	}
	var document any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&document); err != nil {
		return fmt.Errorf("reading the result: %w", err)
	}
	var b bytes.Buffer
	if err := p.Execute(&b, document); err != nil {
		return UsageError("the template of -o jsonpath does not fit the result: %v", err)
	}
	if text := b.String(); text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	return a.Write(b.String())
}

// csv writes all columns, with names such as signed_in.
func (t Table) csv(heads bool) ([]byte, error) {
	head := slices.Concat(t.Head, t.Wide)
	for i, name := range head {
		head[i] = strings.ReplaceAll(strings.ToLower(name), " ", "_")
	}
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if heads && len(head) > 0 {
		_ = w.Write(head) // Flush reports the error
	}
	for _, row := range t.Rows {
		cells := slices.Clone(row)
		for i, cell := range cells {
			cells[i] = inert(cell)
		}
		_ = w.Write(cells)
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// inert puts an apostrophe before a cell that a spreadsheet would calculate: tenants write names.
func inert(cell string) string {
	if cell != "-" && cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}
