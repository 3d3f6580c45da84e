package openapi_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func document(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// Structure, references and every example against its schema.
func TestContractIsValid(t *testing.T) {
	t.Parallel()

	if err := document(t).Validate(t.Context(), openapi3.EnableExamplesValidation(), openapi3.AllowExtensionsWithRef()); err != nil {
		t.Error(err)
	}
}

func TestContractListsTheCatalogueOfCodes(t *testing.T) {
	t.Parallel()

	var listed []errs.Code
	for _, v := range document(t).Components.Schemas["ErrorCode"].Value.Enum {
		listed = append(listed, errs.Code(v.(string)))
	}
	if want := errs.All(); !slices.Equal(listed, want) {
		t.Errorf("contract lists %v, catalogue holds %v", listed, want)
	}
}

// What a person needs of each operation, and what no client may live without.
func TestEveryOperationIsDescribed(t *testing.T) {
	t.Parallel()

	doc := document(t)
	for _, op := range openapi.Operations(doc) {
		t.Run(op.OperationID, func(t *testing.T) {
			t.Parallel()

			if op.Summary == "" || op.Description == "" || len(op.Tags) != 1 {
				t.Error("wants a summary, a description and one tag")
			}
			want := []string{"400", "429", "500", "503"}
			if op.Security == nil {
				want = append(want, "401", "403")
			}
			if op.RequestBody != nil {
				want = append(want, "413", "415")
				if !signed(op) && op.Extensions["x-stream"] == nil && (len(op.RequestBody.Value.Content) != 1 || op.RequestBody.Value.Content["application/json"] == nil) {
					t.Error("accepts something else than JSON")
				}
			}
			for _, status := range want {
				if op.Responses.Value(status) == nil {
					t.Errorf("does not describe what %s means", status)
				}
			}
			if codes, ok := op.Extensions["x-codes"].([]any); ok {
				for _, c := range codes {
					if !slices.Contains(errs.All(), errs.Code(c.(string))) {
						t.Errorf("names %v, which the catalogue does not know", c)
					}
				}
			}
			if op.Method != http.MethodGet && !signed(op) && op.Extensions["x-stream"] == nil && op.OperationID != "previewAllocation" && op.OperationID != "signStorageParts" && !takes(op, "X-Idempotency-Key") { // a preview and a signature create nothing, and a key does not cover a stream
				t.Error("writes without an idempotency key")
			}
		})
	}
}

// signed reports operations that a foreign program calls, in its own shape:
// the bytes are what is signed, and a repeated call is known by what it holds.
func signed(op openapi.Operation) bool { return op.Extensions["x-signed"] != nil }

func takes(op openapi.Operation, parameter string) bool {
	for _, p := range op.Parameters {
		if p.Value.Name == parameter {
			return true
		}
	}
	return false
}

// A body that accepted unknown fields would read a typing error as a default.
func TestBodiesAreClosed(t *testing.T) {
	t.Parallel()

	for _, op := range openapi.Operations(document(t)) {
		if op.RequestBody == nil || signed(op) || op.Extensions["x-stream"] != nil {
			continue
		}
		s := op.RequestBody.Value.Content["application/json"].Schema.Value
		if allowed := s.AdditionalProperties.Has; allowed == nil || *allowed {
			t.Errorf("%s accepts unknown fields", op.OperationID)
		}
	}
}
