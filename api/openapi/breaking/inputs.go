package breaking

import (
	"fmt"

	"github.com/getkin/kin-openapi/openapi3"
	"gopkg.in/yaml.v3"
)

// Read reads an OpenAPI document, or converts an AsyncAPI document to one: an event becomes a reply
// without a request, with the subject as its path.
func Read(text []byte) (*openapi3.T, error) {
	var kind struct{ AsyncAPI string }
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return nil, fmt.Errorf("reading a contract: %w", err)
	}
	if kind.AsyncAPI != "" {
		var err error
		if text, err = calls(text); err != nil {
			return nil, err
		}
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("reading a contract: %w", err)
	}
	return doc, nil
}

type object = map[string]any

// calls converts an AsyncAPI document to OpenAPI. The schemas stay at their paths, so that the
// references between them stay valid.
func calls(text []byte) ([]byte, error) {
	var facts struct {
		Annotation any `yaml:"x-breaking"`
		Channels   map[string]struct {
			Address    string
			Annotation any `yaml:"x-breaking"`
			Messages   map[string]any
		}
		Components struct {
			Messages map[string]struct{ Headers, Payload any }
			Schemas  object
		}
	}
	if err := yaml.Unmarshal(text, &facts); err != nil {
		return nil, fmt.Errorf("reading a contract of facts: %w", err)
	}
	paths := object{}
	for _, channel := range facts.Channels {
		content := object{}
		for name := range channel.Messages {
			m := facts.Components.Messages[name]
			content["application/json"] = object{"schema": m.Payload}
			content["headers"] = object{"schema": m.Headers}
		}
		get := object{
			"operationId": channel.Address,
			"responses":   object{"200": object{"description": channel.Address, "content": content}},
		}
		if channel.Annotation != nil {
			get[Annotation] = channel.Annotation
		}
		paths["/"+channel.Address] = object{"get": get}
	}
	doc := object{
		"openapi": "3.1.0", "info": object{"title": "facts", "version": "v1"},
		"paths": paths, "components": object{"schemas": facts.Components.Schemas},
	}
	if facts.Annotation != nil {
		doc[Annotation] = facts.Annotation
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("writing facts as calls: %w", err)
	}
	return out, nil
}
