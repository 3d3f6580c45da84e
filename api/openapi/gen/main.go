// Command gen writes the section webhooks of the contract from the payloads of api/asyncapi, so that readers of the contract
// have the body of each event.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaas/api/asyncapi"
)

const (
	begin = "# make gen writes this section from api/asyncapi. Do not edit it.\n"
	end   = "# End of the generated section.\n"
	file  = "openapi.yaml"
)

func main() {
	if err := run(file); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	have, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the contract: %w", err)
	}
	text, err := contract(have)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // a source
}

// contract returns the contract with a new section.
func contract(have []byte) ([]byte, error) {
	before, rest, found := bytes.Cut(have, []byte(begin))
	_, after, ends := bytes.Cut(rest, []byte(end))
	if !found || !ends {
		return nil, errors.New("the contract has no line " + strings.TrimSpace(begin))
	}
	section, err := webhooks()
	if err != nil {
		return nil, err
	}
	return slices.Concat(before, []byte(begin), section, []byte(end), after), nil
}

type object = map[string]any

// document is the contract of events, with schemas as they are written.
type document struct {
	Channels map[string]struct {
		Address, Summary string
		Messages         map[string]object
	}
	Components struct {
		Messages map[string]struct{ Payload object }
		Schemas  map[string]object
	}
}

func webhooks() ([]byte, error) {
	var doc document
	if err := yaml.Unmarshal(asyncapi.Document, &doc); err != nil {
		return nil, fmt.Errorf("reading the contract of events: %w", err)
	}
	all := object{}
	for _, c := range doc.Channels {
		if strings.HasPrefix(c.Address, "dlq.") { // dead letters are not sent
			continue
		}
		for name := range c.Messages {
			body, err := doc.body(name)
			if err != nil {
				return nil, err
			}
			all[c.Address] = object{"post": operation(c.Address, c.Summary, body)}
		}
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(object{"webhooks": all}); err != nil {
		return nil, fmt.Errorf("writing the webhooks: %w", err)
	}
	return out.Bytes(), nil
}

func operation(subject, summary string, body object) object {
	return object{
		"tags": []string{"Webhooks"}, "summary": "Receive " + subject, "description": summary,
		"requestBody": object{"required": true, "content": object{"application/json": object{"schema": body}}},
		"responses":   object{"2XX": object{"description": "The receiver has processed the event. Any other response is a failure."}},
	}
}

// body returns the envelope with the payload of a message.
func (d document) body(message string) (object, error) {
	parts, _ := d.Components.Messages[message].Payload["allOf"].([]any)
	if len(parts) != 2 { // the envelope, and what the message adds
		return nil, fmt.Errorf("the message %s of the contract of events has no envelope", message)
	}
	envelope, err := d.resolve(parts[0], nil)
	if err != nil {
		return nil, err
	}
	added, err := d.resolve(parts[1], nil)
	if err != nil {
		return nil, err
	}
	body, _ := envelope.(object)
	properties, _ := body["properties"].(object)
	more, _ := added.(object)["properties"].(object)
	maps.Copy(properties, more)
	return body, nil
}

// resolve returns a copy of a schema with its references replaced. A constant is an enumeration of one value, which all
// versions of the format have.
func (d document) resolve(v any, in []string) (any, error) {
	switch v := v.(type) {
	case object:
		if ref, ok := v["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/components/schemas/")
			target, found := d.Components.Schemas[name]
			if !found || slices.Contains(in, name) {
				return nil, fmt.Errorf("the contract of events has no schema %s, or it contains itself", ref)
			}
			return d.resolve(target, append(slices.Clone(in), name))
		}
		copied := object{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if strings.HasPrefix(key, "x-") { // notes for the comparison with the last release
				continue
			}
			inner, err := d.resolve(v[key], in)
			if err != nil {
				return nil, err
			}
			if key == "const" {
				key, inner = "enum", []any{inner}
			}
			copied[key] = inner
		}
		return copied, nil
	case []any:
		copied := make([]any, len(v))
		for i := range v {
			inner, err := d.resolve(v[i], in)
			if err != nil {
				return nil, err
			}
			copied[i] = inner
		}
		return copied, nil
	}
	return v, nil
}
