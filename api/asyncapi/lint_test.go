package asyncapi_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/api/asyncapi"
)

// shape is the part of a JSON schema that the rules are about.
type shape struct {
	Ref        string `yaml:"$ref"`
	Type       any
	Const      any
	Required   []string
	Closed     *bool `yaml:"additionalProperties"`
	Properties map[string]shape
	Items      *shape
	AllOf      []shape `yaml:"allOf"`
}

type contract struct {
	Channels map[string]struct{ Address, Summary string }
	// Messages have their names and types checked with the channels.
	Components struct {
		Messages map[string]struct {
			Name             string
			Headers, Payload shape
		}
		Schemas map[string]shape
	}
}

var subject = regexp.MustCompile(`^[a-z_]+(\.([a-z_]+|\{[a-z]+\}))+$`)

func lint(t *testing.T, text []byte) (faults []string) {
	t.Helper()
	var doc contract
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	fault := func(place, what string, args ...any) { faults = append(faults, place+": "+fmt.Sprintf(what, args...)) }
	for name, channel := range doc.Channels {
		if !subject.MatchString(channel.Address) {
			fault(name, "the subject %q is not written like.this_one", channel.Address)
		}
		if channel.Summary == "" {
			fault(name, "no summary: when is it sent?")
		}
	}
	for name, m := range doc.Components.Messages {
		if m.Headers.Ref != "#/components/schemas/Headers" {
			fault(name, "has other headers than all facts")
		}
		if m.Name != "dlq" && (len(m.Payload.AllOf) != 2 || m.Payload.AllOf[0].Ref != "#/components/schemas/Envelope") {
			fault(name, "does not come in the envelope")
		}
		if kind := m.Payload.AllOf; len(kind) == 2 && kind[1].Properties["event_type"].Const != m.Name {
			fault(name, "its event_type is not its subject")
		}
	}
	for name, s := range doc.Components.Schemas {
		lintSchema(name, s, fault)
	}
	slices.Sort(faults)
	return faults
}

func lintSchema(at string, s shape, fault func(place, what string, args ...any)) {
	if s.Ref == "" && s.Type == nil && s.Const == nil && s.AllOf == nil {
		fault(at, "has no type")
	}
	for _, name := range s.Required {
		if _, known := s.Properties[name]; !known && len(s.Properties) > 0 {
			fault(at, "requires %q, which it does not describe", name)
		}
	}
	// A broker may add headers.
	if len(s.Properties) > 0 && at != "Headers" && (s.Closed == nil || *s.Closed) {
		fault(at, "takes fields that it does not describe")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		lintSchema(at+"."+name, s.Properties[name], fault)
	}
	if s.Items != nil {
		lintSchema(at+".items", *s.Items, fault)
	}
}

func TestContractKeepsTheRules(t *testing.T) {
	t.Parallel()
	for _, fault := range lint(t, asyncapi.Document) {
		t.Errorf("api/asyncapi/asyncapi.yaml: %s", fault)
	}
}

// Each edit breaks the good contract once.
func TestRulesFindTheirFaults(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string][2]string{
		"provisioningActive: the subject":                        {"address: provisioning.active", "address: Provisioning/Active"},
		"provisioningFailed: no summary":                         {"summary: Provisioning was exhausted; nothing was charged.", "description: x"},
		"ProvisioningFailed: its event_type":                     {"event_type: {const: provisioning.failed}", "event_type: {const: provisioning.fell}"},
		"ProvisioningActive.slots: has no type":                  {"slots: {type: integer, minimum: 0, description: The number of slots.}\n        active_at", "slots: {minimum: 0}\n        active_at"},
		"BillingBalanceDepleted: requires \"balance\"":           {"required: [urn, tenant_id, project_id, balance_minor,", "required: [urn, tenant_id, project_id, balance,"},
		"BillingBalanceDepleted.allocation_ids.items: has no ty": {"items: {type: string, format: uuid}", "items: {format: uuid}"},
		"DeadLetter: takes fields":                               {"required: [envelope, consumer, error, attempts]\n      additionalProperties: false", "required: [envelope, error, attempts]"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(string(asyncapi.Document), edit[0], edit[1], 1)
			if text == string(asyncapi.Document) {
				t.Fatalf("%q does not stand in the contract", edit[0])
			}
			if !slices.ContainsFunc(lint(t, []byte(text)), func(fault string) bool { return strings.HasPrefix(fault, want) }) {
				t.Errorf("not found among %q", lint(t, []byte(text)))
			}
		})
	}
}
