package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/parser"
	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaas/desired"
)

const contractMarker = "    # Code generated from cue/schema by desired/validate/gen. DO NOT EDIT.\n"

// requests are the bodies of the contract that consist of the name, the labels and the fields of a spec.
var requests = map[desired.Kind]string{desired.KindNode: "NodeRequest"}

// contract returns api/openapi/openapi.yaml with new generated schemas: the spec of each kind, and the requests. They are
// the end of the file, after the marker. One file remains the whole contract for clients, for the comparison with the last
// release and for oapi-codegen, which would need a configuration of its own for a second file.
func contract(have []byte) ([]byte, error) {
	written, _, found := bytes.Cut(have, []byte(contractMarker))
	if !found {
		return nil, errors.New("the contract has no line " + strings.TrimSpace(contractMarker))
	}
	schemas, err := contractSchemas()
	if err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(slices.Clone(written))
	text.WriteString(contractMarker)
	var components bytes.Buffer
	out := yaml.NewEncoder(&components)
	out.SetIndent(2)
	if err := out.Encode(schemas); err != nil {
		return nil, fmt.Errorf("writing schemas: %w", err)
	}
	for line := range strings.Lines(components.String()) {
		text.WriteString("    " + line)
	}
	return text.Bytes(), nil
}

func contractSchemas() (map[string]component, error) {
	c, definitions, err := newConverter(contractText, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	c.messages = true
	schemas := map[string]component{}
	for kind, d := range definitions {
		at := "#" + string(kind)
		s, err := c.schema(at+".spec", d.LookupPath(cue.ParsePath("spec")))
		if err != nil {
			return nil, err
		}
		s = openAPI(s)
		properties := s["properties"].(object)  //nolint:forcetypeassert // of a struct
		required, _ := s["required"].([]string) // absent if no field is required
		schemas[string(kind)+"Spec"] = componentOf(commentOf(d), properties, required)
		if name, there := requests[kind]; there {
			properties = maps.Clone(properties)
			properties["name"] = object{"$ref": "#/components/schemas/Label"}
			properties["labels"] = object{"$ref": "#/components/schemas/Labels"}
			text := fmt.Sprintf("The name, the labels and the spec of the desired %s.", kind)
			schemas[name] = componentOf(text, properties, slices.Concat([]string{"name"}, required))
		}
	}
	return schemas, nil
}

// component is a schema of the contract. Each of its fields has a line.
type component struct {
	Type                 string               `yaml:"type"`
	Description          string               `yaml:"description"`
	AdditionalProperties bool                 `yaml:"additionalProperties"`
	Required             []string             `yaml:"required,flow,omitempty"`
	Properties           map[string]yaml.Node `yaml:"properties"`
}

func componentOf(description string, properties object, required []string) component {
	fields := map[string]yaml.Node{}
	for name, s := range properties {
		fields[name] = *flow(s)
	}
	return component{Type: "object", Description: description, Required: required, Properties: fields}
}

// flow writes a schema on one line, its type first and its description last.
func flow(v any) *yaml.Node {
	n := &yaml.Node{Style: yaml.FlowStyle}
	switch v := v.(type) {
	case object:
		n.Kind = yaml.MappingNode
		places := map[string]int{"type": -1, "items": 1, "properties": 2, "description": 3}
		for _, name := range slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			return cmp.Or(cmp.Compare(places[a], places[b]), cmp.Compare(a, b))
		}) {
			n.Content = append(n.Content, flow(name), flow(v[name]))
		}
	case []any:
		n.Kind = yaml.SequenceNode
		for _, item := range v {
			n.Content = append(n.Content, flow(item))
		}
	case []string:
		n.Kind = yaml.SequenceNode
		for _, item := range v {
			n.Content = append(n.Content, flow(item))
		}
	case string:
		n.SetString(v)
	default: // a number or a boolean
		n.Kind, n.Style, n.Value = yaml.ScalarNode, 0, fmt.Sprint(v)
	}
	return n
}
