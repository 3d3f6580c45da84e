package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
)

// Document is an object as files declare it: what the API adds to it is not in there.
type Document struct {
	APIVersion string         `json:"apiVersion" yaml:"apiVersion"`
	Kind       string         `json:"kind" yaml:"kind"`
	Metadata   documentHead   `json:"metadata" yaml:"metadata"`
	Spec       map[string]any `json:"spec" yaml:"spec"`
}

type documentHead struct {
	Name        string            `json:"name" yaml:"name"`
	Labels      map[string]string `json:"labels,omitempty" yaml:"labels"`
	Annotations map[string]string `json:"annotations,omitempty" yaml:"annotations"`
}

// Declaration is the document that declares an object as it is.
func Declaration(o oapi.DesiredObject) (json.RawMessage, error) {
	return output.Encode(Document{
		APIVersion: o.ApiVersion, Kind: string(o.Kind), Spec: o.Spec,
		Metadata: documentHead{Name: o.Metadata.Name, Labels: o.Metadata.Labels, Annotations: o.Metadata.Annotations},
	})
}

// Documents reads a stream of them. JSON is YAML, too; a list of documents is a
// stream of them.
func Documents(name string, text []byte) (all []Document, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var node yaml.Node
		err := d.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, output.UsageError("%s: %v", name, err)
		}
		items := node.Content
		if len(items) == 1 && items[0].Kind == yaml.SequenceNode {
			items = items[0].Content
		}
		for _, item := range items {
			if item.Tag == "!!null" {
				continue // nothing between two lines of ---
			}
			one, err := documentAt(name, item)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil, output.UsageError("%s contains no object", name)
	}
	return all, nil
}

func documentAt(name string, node *yaml.Node) (one Document, err error) {
	var text bytes.Buffer
	if err := yaml.NewEncoder(&text).Encode(node); err != nil {
		return one, output.UsageError("%s:%d: %v", name, node.Line, err)
	}
	strict := yaml.NewDecoder(&text)
	strict.KnownFields(true)
	if err := strict.Decode(&one); err != nil {
		return one, output.UsageError("%s:%d: %v", name, node.Line, err)
	}
	kind, err := KindNamed(one.Kind)
	if err != nil || string(kind) != one.Kind || one.Metadata.Name == "" {
		return one, output.UsageError("%s:%d: kind and metadata.name are needed, like kind: Node", name, node.Line)
	}
	return one, nil
}

// plainLabel matches a name that CUE accepts without quotes.
var plainLabel = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// cueWords mean something else at the beginning of a field.
var cueWords = []string{"package", "import", "for", "in", "if", "let", "true", "false", "null"}

// ToCUE writes a document as the value of one ordinary field, which is how CUE files
// declare objects.
func ToCUE(field string, raw json.RawMessage) (string, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	n, err := output.YamlNode(d)
	if err != nil {
		return "", err
	}
	return label(field) + ": " + cueValue(n, "") + "\n", nil
}

func label(name string) string {
	if plainLabel.MatchString(name) && !slices.Contains(cueWords, name) {
		return name
	}
	return quoteJSON(name)
}

// quoteJSON is a string as JSON and CUE both read it.
func quoteJSON(s string) string {
	text, _ := json.Marshal(s) // a string can always be encoded
	return string(text)
}

func cueValue(n *yaml.Node, indent string) string {
	inner := indent + "\t"
	var b strings.Builder
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) == 0:
		return "{}"
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return "[]"
	case n.Kind == yaml.MappingNode:
		b.WriteString("{\n")
		for i := 0; i+1 < len(n.Content); i += 2 {
			fmt.Fprintf(&b, "%s%s: %s\n", inner, label(n.Content[i].Value), cueValue(n.Content[i+1], inner))
		}
		b.WriteString(indent + "}")
	case n.Kind == yaml.SequenceNode:
		b.WriteString("[\n")
		for _, item := range n.Content {
			fmt.Fprintf(&b, "%s%s,\n", inner, cueValue(item, inner))
		}
		b.WriteString(indent + "]")
	case n.ShortTag() == "!!str":
		return quoteJSON(n.Value)
	default:
		return n.Value
	}
	return b.String()
}
