package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
)

// openAPI turns a JSON Schema into one that clients and the request validator understand. It leaves out conditions between
// fields, which the server checks with the JSON Schema: the contract then accepts each value that some condition accepts.
func openAPI(s object) object {
	s = maps.Clone(s)
	delete(s, "propertyNames")
	if s["description"] == "" {
		delete(s, "description")
	}
	if s[nameDefault] != nil {
		delete(s, nameDefault)
		s["description"] = strings.TrimSpace(fmt.Sprint(cmp.Or(s["description"], any("")), " The default is the name of the object."))
	}
	if word, there := s["const"]; there {
		delete(s, "const")
		s["enum"] = []any{word}
	}
	if words, ok := s["enum"].([]any); ok && s["type"] == nil {
		s["type"] = "string"
		switch words[0].(type) {
		case json.Number:
			s["type"] = "integer"
		case bool:
			s["type"] = "boolean"
		}
	}
	for name, inner := range s {
		switch inner := inner.(type) {
		case object:
			if name == "items" || name == "additionalProperties" {
				s[name] = openAPI(inner)
			}
		case []any:
			if name == "anyOf" {
				s[name] = openAPIList(inner)
			}
		}
	}
	if properties, ok := s["properties"].(object); ok {
		properties = maps.Clone(properties)
		for name, field := range properties {
			properties[name] = openAPI(field.(object)) //nolint:forcetypeassert // of a struct
		}
		s["properties"] = properties
	}
	if branches, ok := s["allOf"].([]any); ok && s["type"] == "object" {
		delete(s, "allOf")
		decidedFields(s["properties"].(object), branches) //nolint:forcetypeassert // of a struct
	}
	return s
}

func openAPIList(list []any) []any {
	list = slices.Clone(list)
	for i, s := range list {
		list[i] = openAPI(s.(object)) //nolint:forcetypeassert // made by the converter
	}
	return list
}

// decidedFields gives a field that depends on another field the values of all branches. Where one branch has no list of
// values, the contract states only the type.
func decidedFields(properties object, branches []any) {
	open := map[string]bool{}
	for _, branch := range branches {
		then := branch.(object)["then"].(object)["properties"].(object) //nolint:forcetypeassert // made by branches
		for name, s := range then {
			field := properties[name].(object) //nolint:forcetypeassert // of a struct
			decided := openAPI(s.(object))     //nolint:forcetypeassert // made by branches
			if field["type"] == nil {
				field["type"] = typeOf(decided)
			}
			more, closed := decided["enum"].([]any)
			if open[name] = open[name] || !closed; open[name] {
				delete(field, "enum")
				continue
			}
			words, _ := field["enum"].([]any)
			for _, word := range more {
				if !contains(words, word) {
					words = append(words, word)
				}
			}
			field["enum"] = words
		}
	}
}

// typeOf returns the type of a field, or of its first alternative.
func typeOf(s object) any {
	if choices, ok := s["anyOf"].([]any); ok {
		return choices[0].(object)["type"] //nolint:forcetypeassert // made by the converter
	}
	return s["type"]
}

// expectedText returns the expectation in the findings about a field.
func expectedText(v cue.Value) string {
	attribute := v.Attribute("expect")
	expected, err := attribute.String(0)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(expected, ".")
}

// addMessage puts the message at the pattern of a field, of its alternatives or of its elements.
func addMessage(s object, text string) {
	if s["pattern"] != nil {
		s["x-message"] = text
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if inner, ok := s[name].(object); ok {
			inner = maps.Clone(inner)
			addMessage(inner, text)
			s[name] = inner
		}
	}
	choices, _ := s["anyOf"].([]any)
	choices = slices.Clone(choices)
	for i, choice := range choices {
		inner := maps.Clone(choice.(object)) //nolint:forcetypeassert // made by the converter
		addMessage(inner, text)
		choices[i] = inner
	}
	if len(choices) > 0 {
		s["anyOf"] = choices
	}
}

// contractText describes a field for clients: by its comment, or by the text of its findings.
func contractText(v cue.Value) string {
	if text := commentOf(v); text != "" {
		return text
	}
	if expected := expectedText(v); expected != "" {
		return "Expected: " + expected + "."
	}
	return ""
}

// commentOf returns the comment of a field or of a definition as one line.
func commentOf(v cue.Value) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(docOf(v), "// ", " ")), " ")
}
