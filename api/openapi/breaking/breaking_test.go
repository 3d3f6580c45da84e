package breaking_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/api/openapi/breaking"
)

// edit turns the old contract of testdata into a newer one.
type edit struct{ cut, put string }

func contract(t *testing.T, file string, edits ...edit) *openapi3.T {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, e := range edits {
		if strings.Count(text, e.cut) != 1 {
			t.Fatalf("%q stands %d times in %s", e.cut, strings.Count(text, e.cut), file)
		}
		text = strings.Replace(text, e.cut, e.put, 1)
	}
	doc, err := breaking.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

const (
	listed      = "      operationId: listBeds\n"
	bedNamed    = "        name: {type: string}\n"
	requestName = "        name: {type: string, minLength: 1, maxLength: 63}\n"
	idOf        = "    delete:\n      operationId: deleteBed\n      parameters:\n        - {name: id, in: path, required: true, schema: {type: string}}\n      responses:\n        '204': {description: Gone.}\n"
)

// Each pair of contracts with all that is said about it.
var pairs = map[string]struct {
	edits []edit
	want  []string
}{
	"nothing": {},
	"words for people": {
		edits: []edit{{"description: Beds.", "description: All beds."}},
	},
	"a path is gone": {
		edits: []edit{{"  /beds/{id}:\n" + idOf, ""}},
		want:  []string{"break: deleteBed: DELETE /beds/{id} is gone"},
	},
	"an operation is gone": {
		edits: []edit{{"    delete:\n      operationId: deleteBed", "    put:\n      operationId: replaceBed"}},
		want:  []string{"break: deleteBed: DELETE /beds/{id} is gone"},
	},
	"an operation is gone, with a reason": {
		edits: []edit{{"  /beds/{id}:\n" + idOf, ""}, {"openapi: 3.1.0\n", "openapi: 3.1.0\nx-breaking: {deleteBed: no client called it}\n"}},
		want:  []string{"excused: deleteBed: DELETE /beds/{id} is gone (x-breaking: no client called it)"},
	},
	"an operation has another name": {
		edits: []edit{{listed, "      operationId: getBeds\n"}},
		want:  []string{`break: listBeds: is called "getBeds" now: generated clients lose their method`},
	},
	"an operation more": {
		edits: []edit{{"  /beds/{id}:\n", "  /beds/{id}:\n    get:\n      operationId: getBed\n      responses: {'200': {description: It.}}\n"}},
	},
	"a way to sign in is gone": {
		edits: []edit{{"security: [{bearer: []}, {session: []}]", "security: [{bearer: []}]"}},
		want: []string{
			"break: createBed: cannot be called by session any more",
			"break: deleteBed: cannot be called by session any more",
			"break: listBeds: cannot be called by session any more",
		},
	},
	"another way to sign in": {
		edits: []edit{{listed, listed + "      security: [{bearer: []}, {session: []}, {mtls: []}]\n"}},
		want:  []string{"warning: listBeds: can be called by mtls"},
	},
	"everyone may call": {
		edits: []edit{{listed, listed + "      security: []\n"}},
		want: []string{
			"warning: listBeds: can be called without a sign-in",
			"break: listBeds: cannot be called by bearer any more",
			"break: listBeds: cannot be called by session any more",
		},
	},
	"a parameter is gone": {
		edits: []edit{{"        - {name: colour, in: query, schema: {type: string, enum: [red, blue]}}\n", ""}},
		want:  []string{`break: listBeds: takes no query parameter "colour" any more`},
	},
	"a parameter is required": {
		edits: []edit{{"{name: colour, in: query,", "{name: colour, in: query, required: true,"}},
		want:  []string{`break: listBeds: requires the query parameter "colour"`},
	},
	"a new parameter is required": {
		edits: []edit{{"        - {name: limit, ", "        - {name: size, in: query, required: true, schema: {type: string}}\n        - {name: limit, "}},
		want:  []string{`break: listBeds: requires the new query parameter "size"`},
	},
	"a new parameter": {
		edits: []edit{{"        - {name: limit, ", "        - {name: size, in: query, schema: {type: string}}\n        - {name: limit, "}},
	},
	"a request's word is gone": {
		edits: []edit{{"enum: [red, blue]", "enum: [red]"}},
		want:  []string{`break: listBeds.?colour: does not take "blue" any more`},
	},
	"a request's word more": {
		edits: []edit{{"enum: [red, blue]", "enum: [red, blue, green]"}},
	},
	"a bound is narrower": {
		edits: []edit{{"minimum: 1, maximum: 200", "minimum: 2, maximum: 100"}},
		want:  []string{"break: listBeds.?limit: has maximum 100, had 200", "break: listBeds.?limit: has minimum 2, had 1"},
	},
	"a bound is wider": {
		edits: []edit{{"minimum: 1, maximum: 200", "minimum: 0, maximum: 500"}},
	},
	"a body is required": {
		edits: []edit{{"      requestBody:\n", "      requestBody:\n        required: true\n"}},
		want:  []string{"break: createBed: requires its body"},
	},
	"a request takes another media type": {
		edits: []edit{{"          application/json:\n            schema: {$ref: '#/components/schemas/BedRequest'}", "          text/plain:\n            schema: {$ref: '#/components/schemas/BedRequest'}"}},
		want:  []string{"break: createBed: request has no application/json any more"},
	},
	"a request's field is required": {
		edits: []edit{{"required: [name]\n", "required: [name, width]\n"}},
		want:  []string{`break: BedRequest: requires the field "width" [createBed]`},
	},
	"a request's field is gone": {
		edits: []edit{{"        width: {type: integer, minimum: 1, maximum: 9}\n", ""}},
		want:  []string{`break: BedRequest: rejects the field "width" [createBed]`},
	},
	"a request's field more": {
		edits: []edit{{requestName, requestName + "        colour: {type: string}\n"}},
	},
	"a request's text is shorter, and has a form": {
		edits: []edit{{"minLength: 1, maxLength: 63", "minLength: 3, maxLength: 20, pattern: '^a'"}},
		want: []string{
			"break: BedRequest.name: has maxLength 20, had 63 [createBed]",
			"break: BedRequest.name: has minLength 3, had 1 [createBed]",
			`break: BedRequest.name: must match "^a" [createBed]`,
		},
	},
	"a request's list and map are shorter": {
		edits: []edit{{"maxItems: 8", "maxItems: 4, uniqueItems: true"}, {"maxProperties: 8", "maxProperties: 4"}, {"maxLength: 9", "maxLength: 8"}},
		want: []string{
			"break: BedRequest.labels: has maxProperties 4, had 8 [createBed]",
			"break: BedRequest.labels.values: has maxLength 8, had 9 [createBed]",
			"break: BedRequest.tags: has maxItems 4, had 8 [createBed]",
			"break: BedRequest.tags: must not hold a value twice [createBed]",
		},
	},
	"a request's type is wider": {
		edits: []edit{{"width: {type: integer, minimum: 1, maximum: 9}", "width: {type: number, minimum: 1, maximum: 9}"}},
	},
	"a reply's type is wider": {
		edits: []edit{{"        width: {type: integer}\n", "        width: {type: [integer, 'null']}\n"}},
		want:  []string{"break: Bed.width: is integer or null, was integer [createBed, listBeds]"},
	},
	"a reply's field is gone": {
		edits: []edit{{"        made_at: {type: string, format: date-time}\n", ""}},
		want:  []string{`break: Bed: has no field "made_at" any more [createBed, listBeds]`},
	},
	"a reply's field is gone, with a reason": {
		edits: []edit{{"        made_at: {type: string, format: date-time}\n", ""}, {"    Bed:\n", "    Bed:\n      x-breaking: it was never right\n"}},
		want:  []string{`excused: Bed: has no field "made_at" any more (x-breaking: it was never right) [createBed, listBeds]`},
	},
	"an excuse of one operation does not cover another": {
		edits: []edit{{"        made_at: {type: string, format: date-time}\n", ""}, {listed, listed + "      x-breaking: lists are slow\n"}},
		want: []string{
			`break: Bed: has no field "made_at" any more [createBed]`,
			`excused: Bed: has no field "made_at" any more (x-breaking: lists are slow) [listBeds]`,
		},
	},
	"an excuse for nothing": {
		edits: []edit{{listed, listed + "      x-breaking: once\n"}},
		want:  []string{"warning: listBeds: x-breaking excuses nothing: take it out"},
	},
	"a reply's field may be missing": {
		edits: []edit{{"required: [id, name]", "required: [id]"}},
		want:  []string{`break: Bed: may lack the field "name" [createBed, listBeds]`},
	},
	"a reply's field is sure": {
		edits: []edit{{"required: [id, name]", "required: [id, name, width]"}},
	},
	"a reply's field more": {
		edits: []edit{{bedNamed, bedNamed + "        colour: {type: string}\n"}},
	},
	"a reply's word more": {
		edits: []edit{{"enum: [made, unmade]", "enum: [made, unmade, stolen]"}},
		want:  []string{`warning: Bed.state: may be "stolen" [createBed, listBeds]`},
	},
	"a reply's form is another": {
		edits: []edit{{"format: date-time", "format: date"}},
		want:  []string{`break: Bed.made_at: has the format "date", had "date-time" [createBed, listBeds]`},
	},
	"an answer is gone": {
		edits: []edit{{"        '202': {description: Later.}\n", ""}},
		want:  []string{"break: createBed: does not answer 202 any more"},
	},
	"an error is gone": {
		edits: []edit{{"        '400': {description: Bad.}\n", ""}},
		want:  []string{"warning: listBeds: does not answer 400 any more"},
	},
	"an answer more": {
		edits: []edit{{"        '202': {description: Later.}\n", "        '202': {description: Later.}\n        '402': {description: Pay.}\n"}},
		want:  []string{"warning: createBed: may answer 402"},
	},
	"a header is gone": {
		edits: []edit{{"            Link: {description: Next., required: true, schema: {type: string}}\n", "            Next: {description: Next., schema: {type: string}}\n"}},
		want:  []string{"break: listBeds: 200 has no header Link any more"},
	},

	"a subject is gone": {
		edits: []edit{{"    address: bed.lost", "    address: bed.mislaid"}},
		want:  []string{"break: bed.lost: GET /bed.lost is gone"},
	},
	"a subject is gone, with a reason": {
		edits: []edit{{"    address: bed.lost", "    address: bed.mislaid"}, {"asyncapi: 3.0.0\n", "asyncapi: 3.0.0\nx-breaking: {bed.lost: never sent}\n"}},
		want:  []string{"excused: bed.lost: GET /bed.lost is gone (x-breaking: never sent)"},
	},
	"a fact's field is gone": {
		edits: []edit{{"        guest: {type: [string, 'null']}\n", ""}},
		want:  []string{`break: Made: has no field "guest" any more [bed.made]`},
	},
	"a fact's field has another type": {
		edits: []edit{{"        by: {type: string}\n", "        by: {type: integer}\n"}},
		want:  []string{"break: Made.by: is integer, was string [bed.made]"},
	},
	"a fact's field is never null": {
		edits: []edit{{"guest: {type: [string, 'null']}", "guest: {type: string}"}},
	},
	"a fact's field may be missing": {
		edits: []edit{{"required: [by, at]", "required: [by]"}},
		want:  []string{`break: Made: may lack the field "at" [bed.made]`},
	},
	"all facts have another version": {
		edits: []edit{{"version: {const: '1.0'}", "version: {const: '2.0'}"}},
		want:  []string{`break: Envelope.version: is always "2.0" [bed.lost, bed.made]`},
	},
	"a fact's header is gone": {
		edits: []edit{{"required: [Id], properties: {Id: {type: string}}", "properties: {}"}},
		want:  []string{`break: Headers: has no field "Id" any more [bed.made]`},
	},
}

func TestPairs(t *testing.T) {
	t.Parallel()
	for name, p := range pairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := "calls.yaml"
			if strings.Contains(name, "fact") || strings.Contains(name, "subject") {
				file = "facts.yaml"
			}
			changes := breaking.Between(contract(t, file), contract(t, file, p.edits...))
			var got []string
			for _, c := range changes {
				got = append(got, c.String())
			}
			if diff := cmp.Diff(p.want, got); diff != "" {
				t.Error(diff)
			}
			broken := slices.ContainsFunc(p.want, func(s string) bool { return strings.HasPrefix(s, "break: ") })
			if breaking.Broken(changes) != broken {
				t.Errorf("broken is not %t", broken)
			}
		})
	}
}
