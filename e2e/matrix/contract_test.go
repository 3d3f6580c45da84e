package matrix_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// slot is a place for an id in an operation.
type slot struct {
	in, name string // path, header or body, and its name there
	kind     string // which id, by the contract's name of the parameter
	list     bool
}

// bodyIDs maps the fields of bodies that contain ids to their types. The object of an id has an
// owner.
var bodyIDs = map[string]string{"ssh_key_ids": "SshKeyID", "tenant_id": "TenantID", "payment_session_id": "PaymentSessionID", "service_account_id": "ServiceAccountID", "dead_letter_ids": "DeadLetterID", "notification_ids": "NotificationID", "project_id": "ProjectPath", "object_id": "StorageObjectID"}

// slotsOf reads the slots of an operation from the contract.
func slotsOf(t testing.TB, o openapi.Operation) (all []slot) {
	t.Helper()
	for _, p := range o.Parameters {
		kind := p.Ref[strings.LastIndex(p.Ref, "/")+1:]
		if p.Value.In == openapi3.ParameterInPath || kind == "ProjectHeader" {
			all = append(all, slot{in: p.Value.In, name: p.Value.Name, kind: kind})
		}
	}
	if !takesJSON(o) {
		return all
	}
	properties := o.RequestBody.Value.Content["application/json"].Schema.Value.Properties
	for _, name := range sorted(properties) {
		s := properties[name].Value
		list := s.Type.Is("array")
		if list {
			s = s.Items.Value
		}
		if s.Format == "uuid" {
			if o.OperationID == "previewAllocation" {
				continue // it responds with a list of the reasons that would reject the request
			}
			if o.OperationID == "replayConsumer" {
				continue // an operator replays the events of all tenants
			}
			if o.OperationID == "createTerminalToken" {
				continue // the session must be one of the allocation in the path
			}
			if bodyIDs[name] == "" {
				t.Fatalf("%s: whose is %s? add it to bodyIDs", o.OperationID, name)
			}
			all = append(all, slot{in: "body", name: name, kind: bodyIDs[name], list: list})
		}
	}
	return all
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func writes(o openapi.Operation) bool {
	return o.Method != http.MethodGet && o.Method != http.MethodHead && o.OperationID != "previewAllocation" && o.OperationID != "signStorageParts" // they evaluate and sign only
}

// signed reports whether another system sends and signs the request.
func signed(o openapi.Operation) bool { return o.Extensions["x-signed"] != nil }

func takesJSON(o openapi.Operation) bool { return o.RequestBody != nil && !signed(o) && !takesBytes(o) }

func public(o openapi.Operation) bool { return o.Security != nil && len(*o.Security) == 0 }

// build creates the request of an operation with these ids in its slots.
func (w *fixture) build(o openapi.Operation, a *actor, ids map[slot]string) request {
	r := request{method: o.Method, path: o.Path, header: a.header()}
	body := w.bodyOf(o)
	for s, value := range ids {
		switch s.in {
		case "path":
			r.path = strings.ReplaceAll(r.path, "{"+s.name+"}", url.PathEscape(value))
		case "header":
			r.header.Set(s.name, value)
		case "body":
			switch {
			case body == nil: // the ids are those of another operation
			case s.list:
				body[s.name] = []string{value}
			default:
				body[s.name] = value
			}
		}
	}
	for _, p := range o.Parameters {
		if p.Value.Name == "If-Match" {
			r.header.Set("If-Match", "*")
		}
	}
	w.addPaths(o, &r, body, ids)
	if body != nil {
		r.body, _ = json.Marshal(body)
	}
	if o.OperationID == "followEvents" {
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "gpuaas.events.v1",
		} {
			r.header.Set(name, value)
		}
	}
	if signed(o) {
		r.body = []byte(`{"id":"evt_1"}`) // by no provider
	}
	return r
}

// bodyOf returns a body that the contract allows and that no other cell has used.
func (w *fixture) bodyOf(o openapi.Operation) map[string]any {
	if !takesJSON(o) {
		return nil
	}
	made := w.objectOf(o.RequestBody.Value.Content["application/json"].Schema.Value)
	switch o.OperationID {
	case "adoptDesired":
		made["source"] = source // goes with the owner that is drawn
	case "mintServiceAccountToken":
		made["job_token"] = "x.y.z" // goes with the service account
	}
	return made
}

func (w *fixture) objectOf(s *openapi3.Schema) map[string]any {
	made := map[string]any{}
	for _, name := range s.Required {
		made[name] = w.valueOf(name, s.Properties[name].Value)
	}
	if len(made) < int(s.MinProps) {
		made["name"] = w.valueOf("name", s.Properties["name"].Value)
	}
	return made
}

func (w *fixture) valueOf(name string, s *openapi3.Schema) any {
	if value, known := w.valuesOf(name); known {
		return value
	}
	switch {
	case name == "parts":
		return []any{} // with the upload
	case name == "size_bytes":
		return 6
	case name == "choices":
		return []any{} // the kinds are not in the contract
	case name == "name":
		return w.unique("made")
	case name == "url":
		return "https://hooks.invalid/"
	case name == "events":
		return []any{"provisioning.*"}
	case name == "email":
		return w.unique("made") + "@example.org"
	case name == "sku":
		return sku
	case name == "public_key":
		line, _ := publicKey()
		return line
	case name == "role" && slices.Contains(s.Enum, any("billing")):
		return "billing" // another one than the present member has
	case name == "role" && slices.Contains(s.Enum, any("member")):
		return "member"
	case name == "amount_minor", name == "threshold_minor", name == "monthly_cap_minor":
		return 500
	case name == "currency":
		return "EUR"
	case name == "kind" && slices.Contains(s.Enum, any("charge")):
		return "charge" // which is refunded as credit where no card can receive it
	case name == "secret":
		token, _ := secret("gps_")
		return token
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type.Is("boolean"):
		return true
	case s.Format == "date-time":
		return time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	case s.Type.Is("array"):
		return []any{w.valueOf("", s.Items.Value)}
	case s.Type.Is("string"):
		return "a long enough text"
	}
	w.Fatalf("the matrix knows no value of %s: teach it in valueOf", name)
	return nil
}

// field reads one string of a JSON object.
func field(body []byte, name string) string {
	var object map[string]any
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	text, _ := object[name].(string)
	return text
}
