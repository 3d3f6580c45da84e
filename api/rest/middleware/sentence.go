package middleware

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/rest/request"
)

// messageExtension describes, in a schema of the contract, what its pattern accepts.
const messageExtension = "x-message"

// sentence describes a finding about the body by the contract: a pattern by its message, and an enum by its values.
func sentence(found *openapi3.SchemaError) string {
	s := found.Schema
	if s == nil {
		return found.Reason
	}
	switch text, _ := s.Extensions[messageExtension].(string); {
	case found.SchemaField == "pattern" && text != "":
		return "must be " + text
	case found.SchemaField == "enum" && len(s.Enum) > 0:
		return "must be " + oneOf(s.Enum)
	}
	return found.Reason
}

// oneOf lists the values of an enum.
func oneOf(values []any) string {
	if len(values) == 1 {
		return fmt.Sprint(values[0])
	}
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = fmt.Sprint(v)
	}
	return "one of " + strings.Join(names, ", ")
}

// bound is a finding of the validator of parameters, such as "maximum: got 500, want 200".
var bound = regexp.MustCompile(`^(minLength|maxLength|minimum|maximum): got (-?\d+), want (-?\d+)$`)

// ofParameter describes a finding about a parameter by the contract. The validator of parameters is another one, which
// returns texts.
func ofParameter(s *openapi3.Schema, finding string) string {
	text, _ := s.Extensions[messageExtension].(string)
	switch m := bound.FindStringSubmatch(finding); {
	case text != "" && strings.Contains(finding, "does not match pattern"):
		return "must be " + text
	case len(s.Enum) > 0 && strings.Contains(finding, "must be one of"):
		return "must be " + oneOf(s.Enum)
	case m == nil:
		return finding
	case m[2] == "0" && m[1] == "minLength":
		return "is empty"
	default:
		most := map[string]string{
			"minLength": "must have at least %s characters", "maxLength": "must have at most %s characters",
			"minimum": "must be at least %s", "maximum": "must be at most %s",
		}
		return fmt.Sprintf(most[m[1]], m[3])
	}
}

// exampleOf returns the body that the contract shows for an operation.
func exampleOf(op *request.Operation) any {
	media := op.Body.Content.Get("application/json")
	if media == nil {
		return nil
	}
	return media.Example
}

// valueIn describes the value at a path of an example, if it has one.
func valueIn(example any, path []string) string {
	for _, name := range path {
		object, _ := example.(map[string]any)
		example = object[name]
	}
	if example == nil {
		return ""
	}
	text, err := json.Marshal(example)
	if err != nil {
		return ""
	}
	return ", for example " + string(text)
}
