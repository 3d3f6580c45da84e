package asyncapi

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Description is the document as the reference shows it.
type Description struct {
	Envelope, Headers []Field
	Events            []Event
}

// Event is one subject with the fields of its payload.
type Event struct {
	Subject, Summary string
	Consumers        []string // the durable consumers of the subject
	Fields           []Field
}

// Field is a field of a message. The type is a JSON type, a format, or the only value.
type Field struct {
	Name, Type, Meaning string
	Required, Constant  bool
}

type document struct {
	Channels map[string]struct {
		Address   string
		Summary   string
		Consumers []string `yaml:"x-consumers"`
		Messages  map[string]any
	}
	Components struct {
		Messages map[string]struct{ Payload schema }
		Schemas  map[string]schema
	}
}

type schema struct {
	Ref         string `yaml:"$ref"`
	Type        any    // one type, or a list
	Format      string
	Const       string
	Description string
	Required    []string
	Properties  map[string]schema
	AllOf       []schema `yaml:"allOf"` // of a message: the envelope, and the payload of the subject
}

// Describe reads the document. Events are sorted by the life of an allocation, and then by subject.
func Describe() (d Description, err error) {
	var doc document
	if err := yaml.Unmarshal(Document, &doc); err != nil {
		return d, fmt.Errorf("reading the contract of events: %w", err)
	}
	d.Envelope, d.Headers = doc.fields("Envelope"), doc.fields("Headers")
	for _, channel := range doc.Channels {
		e := Event{Subject: channel.Address, Summary: channel.Summary, Consumers: channel.Consumers}
		for message := range channel.Messages {
			e.Fields = doc.fields(doc.payloadOf(message))
		}
		d.Events = append(d.Events, e)
	}
	slices.SortFunc(d.Events, func(a, b Event) int {
		if n := place(a) - place(b); n != 0 {
			return n
		}
		return strings.Compare(a.Subject, b.Subject)
	})
	return d, nil
}

// payloadOf returns the name of the schema of the payload of a message.
func (d document) payloadOf(message string) string {
	payload := d.Components.Messages[message].Payload
	for _, part := range payload.AllOf {
		if ref := part.Properties["payload"].Ref; ref != "" {
			return nameIn(ref)
		}
	}
	return nameIn(payload.Ref) // a dead letter has no envelope of its own
}

func nameIn(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

var life = []string{
	"provisioning.requested", "provisioning.active", "provisioning.failed", "provisioning.releasing.requested",
	"provisioning.releasing.completed", "provisioning.release_failed",
}

func place(e Event) int {
	if i := slices.Index(life, e.Subject); i >= 0 {
		return i
	}
	return len(life)
}

// fields returns the fields of a schema: the required ones in the sequence of the document, then the others.
func (d document) fields(of string) (all []Field) {
	s := d.Components.Schemas[of]
	named := slices.Clone(s.Required)
	for name := range s.Properties {
		if !slices.Contains(named, name) {
			named = append(named, name)
		}
	}
	slices.Sort(named[len(s.Required):])
	for i, name := range named {
		p := s.Properties[name]
		if p.Ref != "" {
			p = d.Components.Schemas[nameIn(p.Ref)]
		}
		f := Field{Name: name, Type: p.typeName(), Meaning: p.Description, Required: i < len(s.Required), Constant: p.Const != ""}
		all = append(all, f)
	}
	return all
}

// typeName returns the only value, the format, or the type without null.
func (s schema) typeName() string {
	if s.Const != "" {
		return s.Const
	}
	if s.Format != "" {
		return s.Format
	}
	list, ok := s.Type.([]any)
	if !ok {
		list = []any{s.Type}
	}
	for _, one := range list {
		if name, ok := one.(string); ok && name != "null" {
			return name
		}
	}
	return "null"
}
