package main

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

func outputs() []string { return []string{"table", "wide", "json", "yaml", "name"} }

func (a *app) format() string { return cmp.Or(a.output, a.Env("GPUAAS_OUTPUT"), "table") }

// moreOutputs is the annotation of a command that knows others as well.
const moreOutputs = "outputs"

func (a *app) checkOutput(cmd *cobra.Command) error {
	known := outputs()
	if more := cmd.Annotations[moreOutputs]; more != "" {
		known = append(known, strings.Split(more, ",")...)
	}
	if f := a.format(); !slices.Contains(known, f) {
		e := usage("there is no output %q", f)
		e.Try = "-o " + strings.Join(known, "|")
		return e
	}
	return nil
}

// data says that a program reads the output, so that nothing else belongs there.
func (a *app) data() bool { return a.format() == "json" || a.format() == "yaml" }

// table is a document as people read it.
type table struct {
	head  []string
	wide  []string // more columns, for -o wide; each row holds their cells at its end
	rows  [][]string
	names []string // kind/name of each row, for -o name
}

func (t *table) add(name string, cells ...string) {
	t.rows = append(t.rows, cells)
	t.names = append(t.names, name)
}

// show prints a result in the form that was asked for. raw is what the API said:
// its JSON goes out with other white space and nothing else changed.
func (a *app) show(raw json.RawMessage, t table) error {
	var text []byte
	var err error
	switch a.format() {
	case "json":
		var b bytes.Buffer
		if err = json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err == nil {
			b.WriteByte('\n')
			text = b.Bytes()
		}
	case "yaml":
		text, err = toYAML(raw)
	case "name":
		text = []byte(strings.Join(t.names, "\n"))
		if len(t.names) > 0 {
			text = append(text, '\n')
		}
	default:
		if len(t.rows) == 0 {
			a.say("There are none.")
			return nil
		}
		text = []byte(a.render(t))
	}
	if err != nil {
		return fmt.Errorf("encoding result: %w", err)
	}
	return a.write(string(text))
}

// write puts text where the result goes.
func (a *app) write(text string) error {
	if _, err := io.WriteString(a.Out, text); err != nil {
		return fmt.Errorf("writing result: %w", err)
	}
	return nil
}

// render aligns columns. text/tabwriter would count bytes of colour as width.
func (a *app) render(t table) string {
	head := t.head
	if a.format() == "wide" {
		head = slices.Concat(t.head, t.wide)
	}
	lines := make([][]string, 0, len(t.rows)+1)
	if !a.noHeaders && len(head) > 0 {
		lines = append(lines, head)
	}
	for _, row := range t.rows {
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
			text.WriteString(a.paint(cell))
			if i < len(line)-1 {
				text.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+3))
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	return b.String()
}

// paint colours what a symbol says already; colour alone says nothing.
func (a *app) paint(cell string) string {
	if !a.Colours {
		return cell
	}
	for symbol, colour := range map[string]string{symbolGood: "32", symbolBad: "31", symbolWarn: "33", symbolBusy: "36"} {
		if strings.HasPrefix(cell, symbol) {
			return "\x1b[" + colour + "m" + cell + "\x1b[0m"
		}
	}
	return cell
}

// say talks to the person, beside the result.
func (a *app) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Err, format+"\n", args...)
}

func encode(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding result: %w", err)
	}
	return raw, nil
}

// toYAML keeps the order of the fields, which decoding into maps would lose.
func toYAML(raw json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	n, err := yamlNode(d)
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

func yamlNode(d *json.Decoder) (*yaml.Node, error) {
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
		for d.More() { // of a mapping, keys and values come as one sequence
			c, err := yamlNode(d)
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
		return n, n.Encode(v) // quotes what older parsers would take for a boolean
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
