package notification

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/platform/event"
)

// schema is the part of a schema of api/asyncapi that the tests read.
type schema struct {
	Ref             string `json:"$ref"`
	Pattern, Format string
	Type, Const     any
	Enum            []any
	Minimum         *int
	Required        []string
	Properties      map[string]schema
	AllOf           []schema
}

const schemas = "#/components/schemas/"

// examples are values by schema, pattern, format and type.
var examples = map[string]any{
	"URN": "v:s:-:t:p:allocation:1", "Actor": "system:work", "Amount": 289, "Currency": "EUR", "RequestingUser": "01990000-0000-7000-8000-000000000001", "^[A-Z]{3}$": "EUR",
	"date-time": "2026-01-05T09:00:00Z", "uuid": "01990000-0000-7000-8000-000000000001",
	"integer": -10, "string": "text", "array": []string{"01990000-0000-7000-8000-000000000001", "01990000-0000-7000-8000-000000000002"},
}

func (s schema) example() any {
	switch {
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Minimum != nil:
		return 9 + *s.Minimum
	}
	for _, key := range []string{strings.TrimPrefix(s.Ref, schemas), s.Pattern, s.Format, fmt.Sprint(s.Type)} {
		if v, known := examples[key]; known {
			return v
		}
	}
	return nil
}

// payloadSchemas returns the schema of the payload of each subject.
var payloadSchemas = sync.OnceValue(func() map[string]schema {
	text, err := asyncapi.JSON()
	if err != nil {
		panic(err)
	}
	var contract struct {
		Components struct {
			Messages map[string]struct {
				Name    string
				Payload schema
			}
			Schemas map[string]schema
		}
	}
	if err := json.Unmarshal(text, &contract); err != nil {
		panic(err)
	}
	all := map[string]schema{}
	for _, m := range contract.Components.Messages {
		if len(m.Payload.AllOf) > 1 {
			all[m.Name] = contract.Components.Schemas[strings.TrimPrefix(m.Payload.AllOf[1].Properties["payload"].Ref, schemas)]
		}
	}
	return all
})

// payloadOf returns a payload of the kind with these fields of its schema. The message of a dead letter needs none.
func payloadOf(t *testing.T, k kind, fields []string) []byte {
	t.Helper()
	if k.stream == event.StreamDLQ {
		return []byte(`null`)
	}
	payload := map[string]any{}
	for _, name := range fields {
		payload[name] = payloadSchemas()[k.subject].Properties[name].example()
	}
	text, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func requiredFields(k kind) []string { return payloadSchemas()[k.subject].Required }

func allFields(k kind) []string {
	return slices.Sorted(maps.Keys(payloadSchemas()[k.subject].Properties))
}

// A template names only fields of its event in the contract. One that may be absent is read with index.
func TestTemplatesNameFieldsOfTheContract(t *testing.T) {
	t.Parallel()
	action, field := regexp.MustCompile(`{{.*?}}`), regexp.MustCompile(`(index \. "|\.)([a-z_]+)`)
	for _, k := range kinds() {
		required, all := requiredFields(k), allFields(k)
		if k.stream == event.StreamDLQ {
			required = []string{"event_type"}
		}
		for _, f := range field.FindAllStringSubmatch(strings.Join(action.FindAllString(k.message, -1), " "), -1) {
			if fields := map[bool][]string{true: required, false: all}[f[1] == "."]; !slices.Contains(fields, f[2]) {
				t.Errorf("%s names %s, and %s has %v", k.name, f[2], k.subject, fields)
			}
		}
	}
}
