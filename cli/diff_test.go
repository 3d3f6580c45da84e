package cli

import (
	"encoding/json"
	"testing"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/change"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/preview"
)

// Carried over onto what is declared, the fields of a plan give what is proposed.
func TestFieldsOfAPlanMakeTheProposal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from   string
		fields []preview.Field
		want   string
	}{
		"a value":           {`{"spec":{"gpus":8}}`, []preview.Field{{Path: "/spec/gpus", From: "8", To: "16"}}, `{"spec":{"gpus":16}}`},
		"made on the way":   {`{}`, []preview.Field{{Path: "/spec/a/b", To: `"x"`}}, `{"spec":{"a":{"b":"x"}}}`},
		"removed":           {`{"spec":{"a":1,"b":2}}`, []preview.Field{{Path: "/spec/a", From: "1"}}, `{"spec":{"b":2}}`},
		"a longer list":     {`{"l":["a"]}`, []preview.Field{{Path: "/l/1", To: `"b"`}, {Path: "/l/2", To: `"c"`}}, `{"l":["a","b","c"]}`},
		"a shorter list":    {`{"l":["a","b","c"]}`, []preview.Field{{Path: "/l/1", From: `"b"`}, {Path: "/l/2", From: `"c"`}}, `{"l":["a"]}`},
		"a list where none": {`{}`, []preview.Field{{Path: "/l/0", To: `"a"`}}, `{"l":["a"]}`},
		"escaped names":     {`{"a":{"b/c":1}}`, []preview.Field{{Path: "/a/b~1c", From: "1", To: "2"}, {Path: "/a/~0", To: "3"}}, `{"a":{"b/c":2,"~":3}}`},
		"the whole":         {`{"a":1}`, []preview.Field{{Path: "", From: `{"a":1}`, To: `{"b":2}`}}, `{"b":2}`},
		"of what is gone":   {`{"a":1}`, []preview.Field{{Path: "/b/c", From: "1"}, {Path: "/a/0", From: "1"}}, `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var document any
			if err := json.Unmarshal([]byte(c.from), &document); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(change.ProposalOf(document, c.fields))
			if err != nil || string(got) != c.want {
				t.Errorf("%s, %v, want %s", got, err, c.want)
			}
		})
	}
}

// What is exported declares the same object, whatever is in its texts.
func TestExportedTextsSurvive(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"plain", `a "quoted" \(text)`, "yes", "1e3", "null", "- x", "#no comment", "ü", "a: b", " padded "} {
		o := oapi.DesiredObject{
			ApiVersion: "gpuaas/v1alpha1", Kind: oapi.KindSKU, Metadata: oapi.DesiredMetadata{Name: "t4", Annotations: map[string]string{"for": text}},
			Spec: map[string]any{
				"displayName": text, "gpuModel": "NVIDIA T4", "memoryGiB": 16, "isolation": "host_user", "maxGPUs": 8, "active": true,
				"price": map[string]any{"currency": "EUR", "amountMinor": 35},
			},
		}
		for _, form := range []string{"yaml", "json", "cue"} {
			body, err := change.Rendered(form, "", o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := validate.Run(t.Context(), map[string][]byte{"a." + form: body})
			if err != nil || !got.OK() || len(got.Objects) != 1 {
				t.Errorf("%q as %s: %v, %v\n%s", text, form, got.Findings, err, body)
				continue
			}
			var spec struct{ DisplayName string }
			if err := json.Unmarshal(got.Objects[0].Spec, &spec); err != nil || spec.DisplayName != text || got.Objects[0].Annotations["for"] != text {
				t.Errorf("%q as %s became %q", text, form, spec.DisplayName)
			}
		}
	}
}

func TestResourcesHaveOneNotation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]client.ResourceRef{
		"node/a":         {KindName: "Node", Name: "a"},
		"Nodes/a":        {KindName: "Node", Name: "a"},
		"OSIMAGE/a":      {KindName: "OSImage", Name: "a"},
		"images/a":       {KindName: "OSImage", Name: "a"},
		"policies/a":     {KindName: "Policy", Name: "a"},
		"alloc/a":        {KindName: "Allocation", Name: "a"},
		"allocation/p/a": {KindName: "Allocation", Scope: "p", Name: "a"},
		"git-sources/a":  {KindName: client.WordSource, Name: "a"},
		"rev/12":         {KindName: client.WordRevision, Name: "12"},
		"plan/x":         {KindName: client.WordPlan, Name: "x"},
		"node":           {},
		"node/":          {},
		"thing/a":        {},
		"/a":             {},
	} {
		got, err := client.ParseResourceRef(text)
		if got != want || (err == nil) != (want != client.ResourceRef{}) {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
}
