package layout

import (
	"maps"

	"github.com/getkin/kin-openapi/openapi3"
)

// fields are the properties of an object with those of the parts that its schema combines.
func fields(schema *openapi3.SchemaRef) (all map[string]*openapi3.SchemaRef, rest *openapi3.SchemaRef) {
	all = map[string]*openapi3.SchemaRef{}
	for _, part := range schema.Value.AllOf {
		of, others := fields(part)
		maps.Copy(all, of)
		if others != nil {
			rest = others
		}
	}
	maps.Copy(all, schema.Value.Properties)
	if schema.Value.AdditionalProperties.Schema != nil {
		rest = schema.Value.AdditionalProperties.Schema
	}
	return all, rest
}

// items is the schema of the elements of a list.
func items(schema *openapi3.SchemaRef) *openapi3.SchemaRef {
	for _, part := range schema.Value.AllOf {
		if of := items(part); of != nil {
			return of
		}
	}
	return schema.Value.Items
}

// change applies to to each value of a body, from the inside out, with the schema of the value.
func change(schema *openapi3.SchemaRef, value any, to func(*openapi3.Schema, any) any) any {
	if schema == nil || schema.Value == nil {
		return value
	}
	switch v := value.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = change(items(schema), v[i], to)
		}
		return to(schema.Value, list)
	case map[string]any:
		known, rest := fields(schema)
		object := map[string]any{}
		for name, of := range v {
			next := known[name]
			if next == nil {
				next = rest
			}
			object[name] = change(next, of, to)
		}
		return to(schema.Value, object)
	default:
		return to(schema.Value, value)
	}
}

// empty has lists without an element.
func empty(_ *openapi3.Schema, value any) any {
	if _, ok := value.([]any); ok {
		return []any{}
	}
	return value
}

// lengthen replaces each text that a user can write.
func lengthen(schema *openapi3.Schema, value any) any {
	if _, ok := value.(string); ok && len(schema.Enum) == 0 && schema.Format == "" && schema.Extensions["const"] == nil {
		return overlong
	}
	return value
}
