package openapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// excused lists the places that a rule excludes, with the reason. One that breaks
// no rule any more is an error: it would excuse the next fault.
var excused = map[string]string{
	"list getNodeCapacity":              "one row per SKU and region, of which there are a few dozen",
	"list getAllocationTimeline":        "an allocation has a dozen states",
	"example exportAuditLogs 200":       "a table, whose first line names its columns",
	"example exportAdminAuditLogs 200":  "a table, whose first line names its columns",
	"example updateMe 200":              "the same document as createUser answers",
	"typed AuditRecord.before":          "its form depends on the kind of the resource, and it is stored unchanged",
	"typed AuditRecord.after":           "its form depends on the kind of the resource, and it is stored unchanged",
	"problem getHealthz 503":            "the same document as with 200: the checks name what is down",
	"problem downloadStorage 416":       "net/http writes it, and Content-Range has the size of the file",
	"problem downloadSignedStorage 416": "as downloadStorage",
	"example getHealthz 503":            "the same document as with 200, which shows it",
}

// rules of this contract, beyond those of the format. Each reports where it is
// broken, by place; a rule's name is what an excuse begins with.
var rules = map[string]func(doc *openapi3.T, fault func(place, what string)){
	"name":         lowerCamel,
	"tag":          declaredTags,
	"example":      examples,
	"typed":        typed,
	"bounded":      bounded,
	"problem":      problems,
	"idempotency":  bothKeys,
	"precondition": preconditions,
	"list":         lists,
	"message":      messages,
}

// lint returns the faults of a contract as "rule place: what".
func lint(doc *openapi3.T) []string {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		rules[name](doc, func(place, what string) {
			faults = append(faults, name+" "+place+": "+what)
		})
	}
	return faults
}

func TestContractKeepsTheRules(t *testing.T) {
	t.Parallel()

	used := map[string]bool{}
	for _, fault := range lint(document(t)) {
		place, _, _ := strings.Cut(fault, ": ")
		if excused[place] == "" {
			t.Errorf("api/openapi/openapi.yaml: %s", fault)
		}
		used[place] = true
	}
	for place := range excused {
		if !used[place] {
			t.Errorf("%q is excused in lint_test.go and breaks no rule: remove the excuse", place)
		}
	}
}

var camel = regexp.MustCompile(`^[a-z]+([A-Z]+[a-z0-9]*)*$`)

func lowerCamel(doc *openapi3.T, fault func(place, what string)) {
	for _, op := range openapi.Operations(doc) {
		if !camel.MatchString(op.OperationID) {
			fault(op.Method+" "+op.Path, fmt.Sprintf("operationId %q is not written likeThis", op.OperationID))
		}
	}
}

func declaredTags(doc *openapi3.T, fault func(place, what string)) {
	used := map[string]bool{}
	for _, op := range openapi.Operations(doc) {
		for _, tag := range op.Tags {
			used[tag] = true
			if doc.Tags.Get(tag) == nil {
				fault(op.OperationID, "tag "+tag+" is not declared at the top")
			}
		}
	}
	for _, tag := range doc.Tags {
		if !used[tag.Name] || tag.Description == "" {
			fault(tag.Name, "the tag is used by no operation, or has no description")
		}
	}
}

// Every response that has a body shows one, with its schema.
func examples(doc *openapi3.T, fault func(place, what string)) {
	for _, op := range openapi.Operations(doc) {
		for _, status := range slices.Sorted(maps.Keys(op.Responses.Map())) {
			content := op.Responses.Value(status).Value.Content
			shown := len(content) == 0
			for _, media := range content {
				shown = shown || media.Example != nil || len(media.Examples) > 0
				if media.Schema == nil {
					fault(op.OperationID+" "+status, "a body without a schema")
				}
			}
			if !shown {
				fault(op.OperationID+" "+status, "no example of the body")
			}
		}
		if op.RequestBody == nil {
			continue
		}
		for _, media := range op.RequestBody.Value.Content {
			if media.Example == nil && len(media.Examples) == 0 && len(media.Schema.Value.Properties) > 0 {
				fault(op.OperationID+" request", "no example of the body")
			}
		}
	}
}

// schemas visits every schema that a reference leads to, by its place.
func schemas(at string, ref *openapi3.SchemaRef, seen map[*openapi3.Schema]bool, visit func(at string, s *openapi3.Schema)) {
	if ref == nil || seen[ref.Value] {
		return
	}
	s := ref.Value
	seen[s] = true
	if name, named := strings.CutPrefix(ref.Ref, "#/components/schemas/"); named {
		at = name
	}
	visit(at, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		schemas(at+"."+name, s.Properties[name], seen, visit)
	}
	schemas(at+".items", s.Items, seen, visit)
	schemas(at+".values", s.AdditionalProperties.Schema, seen, visit)
	for i, part := range slices.Concat(s.AllOf, s.OneOf, s.AnyOf) {
		schemas(fmt.Sprintf("%s.%d", at, i), part, seen, visit)
	}
}

// What has no type is anything, and generated code loses it.
func typed(doc *openapi3.T, fault func(place, what string)) {
	seen := map[*openapi3.Schema]bool{}
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		schemas(name, doc.Components.Schemas[name], seen, func(at string, s *openapi3.Schema) {
			if s.Type.IsEmpty() && len(s.AllOf)+len(s.OneOf)+len(s.AnyOf) == 0 && s.Const == nil {
				fault(at, "has no type")
			}
		})
	}
}

// messages demands a sentence for each pattern that a client may miss: a pattern explains nothing.
func messages(doc *openapi3.T, fault func(place, what string)) {
	seen := map[*openapi3.Schema]bool{}
	check := func(at string, s *openapi3.Schema) {
		if text, _ := s.Extensions["x-message"].(string); s.Pattern != "" && text == "" {
			fault(at, "has a pattern without x-message")
		}
	}
	for _, op := range openapi.Operations(doc) {
		for _, p := range slices.Concat(doc.Paths.Value(op.Path).Parameters, op.Parameters) {
			schemas(op.OperationID+" "+p.Value.Name, p.Value.Schema, seen, check)
		}
		if op.RequestBody == nil {
			continue
		}
		for _, media := range op.RequestBody.Value.Content {
			schemas(op.OperationID+" request", media.Schema, seen, check)
		}
	}
}

// What clients send must end somewhere: text, lists and maps.
func bounded(doc *openapi3.T, fault func(place, what string)) {
	seen := map[*openapi3.Schema]bool{}
	check := func(at string, s *openapi3.Schema) {
		if why := endless(s); why != "" {
			fault(at, why)
		}
	}
	for _, op := range openapi.Operations(doc) {
		for _, p := range slices.Concat(doc.Paths.Value(op.Path).Parameters, op.Parameters) {
			schemas(op.OperationID+" "+p.Value.Name, p.Value.Schema, seen, check)
		}
		if op.RequestBody == nil {
			continue
		}
		for _, media := range op.RequestBody.Value.Content {
			schemas(op.OperationID+" request", media.Schema, seen, check)
		}
	}
}

func endless(s *openapi3.Schema) string {
	fixed := len(s.Enum) > 0 || s.Const != nil || ends(s.Pattern) || slices.Contains([]string{"uuid", "date-time", "date"}, s.Format)
	switch {
	case s.Type.Permits(openapi3.TypeString) && !s.Type.IsEmpty() && s.MaxLength == nil && !fixed:
		return "text without a maxLength"
	case s.Type.Is(openapi3.TypeArray) && s.MaxItems == nil:
		return "a list without maxItems"
	case s.AdditionalProperties.Schema != nil && s.MaxProps == nil:
		return "a map without maxProperties"
	}
	return ""
}

// ends reports whether a pattern matches whole text and repeats nothing without an end.
func ends(pattern string) bool {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || !strings.HasPrefix(pattern, "^") || !strings.HasSuffix(pattern, "$") {
		return false
	}
	for next := []*syntax.Regexp{tree}; len(next) > 0; {
		part := next[0]
		next = append(next[1:], part.Sub...)
		if part.Op == syntax.OpStar || part.Op == syntax.OpPlus || part.Op == syntax.OpRepeat && part.Max < 0 {
			return false
		}
	}
	return true
}

// Every failure has the one envelope, in both media types.
func problems(doc *openapi3.T, fault func(place, what string)) {
	for _, op := range openapi.Operations(doc) {
		for _, status := range slices.Sorted(maps.Keys(op.Responses.Map())) {
			if status < "400" {
				continue
			}
			for _, media := range []string{"application/json", "application/problem+json"} {
				m := op.Responses.Value(status).Value.Content[media]
				if m == nil || m.Schema == nil || m.Schema.Ref != "#/components/schemas/Problem" {
					fault(op.OperationID+" "+status, media+" is not a Problem")
					break
				}
			}
		}
	}
}

// TestEveryOperationIsDescribed checks that each write accepts a key. This rule checks
// both names of the header.
func bothKeys(doc *openapi3.T, fault func(place, what string)) {
	for _, op := range openapi.Operations(doc) {
		if takes(op, "X-Idempotency-Key") != takes(op, "Idempotency-Key") {
			fault(op.OperationID, "accepts one of the two idempotency headers")
		}
		for _, status := range []string{"409", "422"} {
			// Without a sign-in a key has no owner, and is not stored.
			if takes(op, "Idempotency-Key") && op.Security == nil && op.Responses.Value(status) == nil {
				fault(op.OperationID, "accepts an idempotency key, and does not list the status "+status)
			}
		}
		if reads := op.Method == http.MethodGet || op.Method == http.MethodHead; reads && takes(op, "X-Idempotency-Key") {
			fault(op.OperationID, "reads, and accepts an idempotency key")
		}
	}
}

// A change of a resource with a version names the version that the client has read.
func preconditions(doc *openapi3.T, fault func(place, what string)) {
	for _, op := range openapi.Operations(doc) {
		if op.Method != http.MethodPut && op.Method != http.MethodPatch && op.Method != http.MethodDelete {
			continue
		}
		tagged := versioned(op.Operation) || versioned(doc.Paths.Value(op.Path).Get)
		switch {
		case tagged && !takes(op, "If-Match"):
			fault(op.OperationID, "changes what has an ETag, and accepts no If-Match")
		case takes(op, "If-Match") && op.Responses.Value("412") == nil:
			fault(op.OperationID, "accepts If-Match, and does not list 412")
		}
	}
}

func versioned(op *openapi3.Operation) bool {
	if op == nil {
		return false
	}
	for status, answer := range op.Responses.Map() {
		if status < "300" && answer.Value.Headers["ETag"] != nil {
			return true
		}
	}
	return false
}

// A list is read in pages.
func lists(doc *openapi3.T, fault func(place, what string)) {
	for _, op := range openapi.Operations(doc) {
		ok := op.Responses.Value("200")
		if op.Method != http.MethodGet || ok == nil || ok.Value.Content["application/json"] == nil {
			continue
		}
		s := ok.Value.Content["application/json"].Schema.Value
		if s.Properties["items"] == nil {
			continue
		}
		var lacks []string
		for what, has := range map[string]bool{
			"the parameter limit": takes(op, "limit"), "the parameter cursor": takes(op, "cursor"),
			"the field next_cursor": s.Properties["next_cursor"] != nil, "the header Link": ok.Value.Headers["Link"] != nil,
		} {
			if !has {
				lacks = append(lacks, what)
			}
		}
		if slices.Sort(lacks); len(lacks) > 0 {
			fault(op.OperationID, "lacks "+strings.Join(lacks, ", "))
		}
	}
}

// The rules find what they are for: each case breaks a good contract once.
func TestRulesFindTheirFaults(t *testing.T) {
	t.Parallel()

	for want, spoil := range map[string]func(doc *openapi3.T){
		"name GET /api/v1/skus": func(doc *openapi3.T) { doc.Paths.Value("/api/v1/skus").Get.OperationID = "list_skus" },
		"tag listSkus":          func(doc *openapi3.T) { doc.Paths.Value("/api/v1/skus").Get.Tags = []string{"Shop"} },
		"tag Shop":              func(doc *openapi3.T) { doc.Tags = append(doc.Tags, &openapi3.Tag{Name: "Shop"}) },
		"example listSkus 200": func(doc *openapi3.T) {
			doc.Paths.Value("/api/v1/skus").Get.Responses.Value("200").Value.Content["application/json"].Example = nil
		},
		"typed Sku.name": func(doc *openapi3.T) { doc.Components.Schemas["Sku"].Value.Properties["name"].Value.Type = nil },
		"bounded AllocationRequest.name": func(doc *openapi3.T) {
			doc.Components.Schemas["AllocationRequest"].Value.Properties["name"].Value.MaxLength = nil
		},
		"bounded AllocationRequest.ssh_key_ids": func(doc *openapi3.T) {
			doc.Components.Schemas["AllocationRequest"].Value.Properties["ssh_key_ids"].Value.MaxItems = nil
		},
		"bounded AllocationRequest.labels": func(doc *openapi3.T) {
			doc.Components.Schemas["AllocationRequest"].Value.Properties["labels"].Value.MaxProps = nil
		},
		"problem listSkus 400": func(doc *openapi3.T) {
			delete(doc.Paths.Value("/api/v1/skus").Get.Responses.Value("400").Value.Content, "application/problem+json")
		},
		"idempotency createAllocation": func(doc *openapi3.T) { drop(doc.Paths.Value("/api/v1/allocations").Post, "Idempotency-Key") },
		"precondition deleteSku": func(doc *openapi3.T) {
			tagged := doc.Paths.Value("/api/v1/allocations/{id}").Get
			doc.Paths.Value("/api/v1/skus/{sku}").Delete = &openapi3.Operation{OperationID: "deleteSku", Responses: tagged.Responses}
		},
		"list listSkus": func(doc *openapi3.T) { drop(doc.Paths.Value("/api/v1/skus").Get, "cursor") },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()

			doc := document(t)
			spoil(doc)
			if !slices.ContainsFunc(lint(doc), func(fault string) bool { return strings.HasPrefix(fault, want+": ") }) {
				t.Errorf("not found among %q", lint(doc))
			}
		})
	}
}

func drop(op *openapi3.Operation, parameter string) {
	op.Parameters = slices.DeleteFunc(slices.Clone(op.Parameters), func(p *openapi3.ParameterRef) bool { return p.Value.Name == parameter })
}
