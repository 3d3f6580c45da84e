package main

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/asyncapi"
)

// The section is that of the present contract of events, and each event of it is there with its payload.
func TestTheSectionIsCurrent(t *testing.T) {
	t.Parallel()
	have, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := contract(have)
	if err != nil || !bytes.Equal(have, want) {
		t.Fatalf("the section is out of date: run make gen (%v)", err)
	}
	if _, err := contract([]byte("openapi: 3.1.0\n")); err == nil {
		t.Error("a contract without the section was accepted")
	}
	doc, err := openapi3.NewLoader().LoadFromData(have)
	if err != nil {
		t.Fatal(err)
	}
	events, err := asyncapi.Describe()
	if err != nil {
		t.Fatal(err)
	}
	var types []any // that a stream can select
	n := 0
	for _, e := range events.Events {
		if e.Subject == "dlq.{stream}.{subject}" {
			continue
		}
		n++
		types = append(types, e.Subject)
		item := doc.Webhooks[e.Subject]
		if item == nil || item.Post == nil {
			t.Errorf("%s is not in the contract", e.Subject)
			continue
		}
		body := item.Post.RequestBody.Value.Content["application/json"].Schema.Value
		payload := body.Properties["payload"]
		if payload == nil || body.Properties["event_id"] == nil {
			t.Errorf("%s has no envelope", e.Subject)
			continue
		}
		for _, f := range e.Fields {
			if payload.Value.Properties[f.Name] == nil && len(payload.Value.AllOf) == 0 {
				t.Errorf("%s has no field %s", e.Subject, f.Name)
			}
		}
	}
	selectable := doc.Components.Schemas["EventType"].Value.Enum
	for _, missing := range types {
		if !slices.Contains(selectable, missing) {
			t.Errorf("EventType lacks %s", missing)
		}
	}
	if len(selectable) != len(types) {
		t.Errorf("EventType has %d subjects, and the contract of events %d", len(selectable), len(types))
	}
	if n != len(doc.Webhooks) || n < 30 {
		t.Errorf("%d events, %d webhooks", n, len(doc.Webhooks))
	}
}
