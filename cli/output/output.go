package output

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"
)

func Outputs() []string {
	return []string{"table", "wide", "json", "yaml", "name", "csv", "jsonpath=TEMPLATE"}
}

func (a *Console) Format() string { return cmp.Or(a.Output, a.Env("GPUAAS_OUTPUT"), "table") }

// MoreOutputs is the annotation of a command that knows others as well.
const MoreOutputs = "outputs"

func (a *Console) CheckOutput(cmd *cobra.Command) error {
	known := Outputs()
	if more := cmd.Annotations[MoreOutputs]; more != "" {
		known = append(known, strings.Split(more, ",")...)
	}
	if template, ok := strings.CutPrefix(a.Format(), jsonPathPrefix); ok {
		_, err := parseJSONPath(template)
		return err
	}
	if f := a.Format(); !slices.Contains(known, f) || strings.Contains(f, "=") {
		e := UsageError("output %q does not exist", f)
		e.Try = "-o " + strings.Join(known, "|")
		return e
	}
	return nil
}

// Data returns whether a program reads the output, so that nothing else belongs there.
func (a *Console) Data() bool {
	f := a.Format()
	return f == "json" || f == "yaml" || f == "csv" || strings.HasPrefix(f, jsonPathPrefix)
}

// Table is a document as people read it.
type Table struct {
	Head  []string
	Wide  []string // more columns, for -o wide; each row contains their cells at its end
	Rows  [][]string
	Names []string // kind/name of each row, for -o name
}

func (t *Table) Add(name string, cells ...string) {
	t.Rows = append(t.Rows, cells)
	t.Names = append(t.Names, name)
}

// Show prints a result in the requested form. raw is the response of the API:
// its JSON goes out with other white space and nothing else changed.
func (a *Console) Show(raw json.RawMessage, t Table) error {
	var text []byte
	var err error
	if template, ok := strings.CutPrefix(a.Format(), jsonPathPrefix); ok {
		return a.showJSONPath(raw, template)
	}
	switch a.Format() {
	case "json":
		var b bytes.Buffer
		if err = json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err == nil {
			b.WriteByte('\n')
			text = b.Bytes()
		}
	case "yaml":
		text, err = ToYAML(raw)
	case "csv":
		text, err = t.csv(!a.NoHeaders)
	case "name":
		text = []byte(strings.Join(t.Names, "\n"))
		if len(t.Names) > 0 {
			text = append(text, '\n')
		}
	default:
		if len(t.Rows) == 0 {
			a.Notify("No results.")
			return nil
		}
		text = []byte(a.Render(t))
	}
	if err != nil {
		return fmt.Errorf("encoding result: %w", err)
	}
	return a.Write(string(text))
}

// Write puts text where the result goes.
func (a *Console) Write(text string) error {
	if _, err := io.WriteString(a.Out, text); err != nil {
		return fmt.Errorf("writing result: %w", err)
	}
	return nil
}

// Render aligns columns. text/tabwriter would count bytes of colour as width.
func (a *Console) Render(t Table) string {
	head := t.Head
	if a.Format() == "wide" {
		head = slices.Concat(t.Head, t.Wide)
	}
	lines := make([][]string, 0, len(t.Rows)+1)
	if !a.NoHeaders && len(head) > 0 {
		lines = append(lines, head)
	}
	for _, row := range t.Rows {
		lines = append(lines, row[:min(len(row), max(len(head), 1))])
	}
	width := map[int]int{}
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			text.WriteString(a.Paint(cell))
			if i < len(line)-1 {
				text.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+3))
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	return b.String()
}

// Paint colours what a symbol shows already; colour alone shows nothing.
func (a *Console) Paint(cell string) string {
	if !a.Colours {
		return cell
	}
	for symbol, colour := range map[string]string{SymbolGood: "32", SymbolBad: "31", SymbolWarn: "33", SymbolBusy: "36"} {
		if strings.HasPrefix(cell, symbol) {
			return "\x1b[" + colour + "m" + cell + "\x1b[0m"
		}
	}
	return cell
}

// Notify prints a message for the user to stderr, separate from the result.
func (a *Console) Notify(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Err, format+"\n", args...)
}

func Encode(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding result: %w", err)
	}
	return raw, nil
}

// ToYAML preserves the sequence of the fields, which decoding into maps would lose.
func ToYAML(raw json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	n, err := YamlNode(d)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

func YamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if v == '{' {
			n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		}
		for d.More() { // of a mapping, keys and values are one sequence
			c, err := YamlNode(d)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, c)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		_, err := d.Token()
		return n, err
	case string:
		n := &yaml.Node{}
		return n, n.Encode(v) // quotes what older parsers would read as a boolean
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: v.String()}, nil
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: v.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}, nil
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
}

func (a *Console) NotifyMore(limit int, more bool) {
	if more {
		a.Notify("There are more than %d: --limit 0 shows all.", limit)
	}
}

// encodeParts puts documents of the API under names, for what is made of several.
func encodeParts(parts map[string]json.RawMessage) (json.RawMessage, error) { return Encode(parts) }
