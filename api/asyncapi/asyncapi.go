// Package asyncapi contains the contract of the events on NATS: their subjects and payloads. It
// sends nothing. Tests validate every payload against it.
package asyncapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// Document is the AsyncAPI 3.0 document.
//
//go:embed asyncapi.yaml
var Document []byte

const location = "asyncapi.json"

// Contract checks messages against the document.
type Contract struct {
	messages map[string]string // by subject, the place of the message
	compiler *jsonschema.Compiler
}

// Load reads the document.
func Load() (*Contract, error) {
	var root map[string]any
	if err := yaml.Unmarshal(Document, &root); err != nil {
		return nil, fmt.Errorf("reading the contract of facts: %w", err)
	}
	var parts struct {
		Components struct {
			Messages map[string]struct{ Name string }
		}
	}
	if err := yaml.Unmarshal(Document, &parts); err != nil {
		return nil, fmt.Errorf("reading the messages of the contract: %w", err)
	}
	c := &Contract{messages: map[string]string{}, compiler: jsonschema.NewCompiler()}
	c.compiler.DefaultDraft(jsonschema.Draft7) // AsyncAPI's schema objects build on it
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(location, root); err != nil {
		return nil, fmt.Errorf("adding the contract: %w", err)
	}
	for key, m := range parts.Components.Messages {
		c.messages[m.Name] = location + "#/components/messages/" + key + "/payload"
	}
	return c, nil
}

// JSON returns the document as JSON.
func JSON() ([]byte, error) {
	var root map[string]any
	if err := yaml.Unmarshal(Document, &root); err != nil {
		return nil, fmt.Errorf("reading the contract of events: %w", err)
	}
	text, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("writing the contract of events as JSON: %w", err)
	}
	return text, nil
}

// Message validates a message: the envelope with its payload.
func (c *Contract) Message(subject string, data []byte) error {
	name := subject
	if strings.HasPrefix(subject, "dlq.") {
		name = "dlq"
	}
	return c.check(name, "", data)
}

// Payload checks a fact's own part of the message.
func (c *Contract) Payload(subject string, payload []byte) error {
	return c.check(subject, "/allOf/1/properties/payload", payload)
}

func (c *Contract) check(name, within string, data []byte) error {
	place, found := c.messages[name]
	if !found {
		return fmt.Errorf("the contract has no message %q", name)
	}
	schema, err := c.compiler.Compile(place + within)
	if err != nil {
		return fmt.Errorf("compiling the schema of %s: %w", name, err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("reading a message of %s: %w", name, err)
	}
	if err := schema.Validate(document); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Validate checks a fact's payload against the document.
func Validate(subject string, payload []byte) error {
	c, err := Load()
	if err != nil {
		return err
	}
	return c.Payload(subject, payload)
}
