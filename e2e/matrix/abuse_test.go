package matrix_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// may returns the actors that may call an operation in their own tenant.
func (w *fixture) may(o openapi.Operation) *actor {
	if ofOperators(o) {
		return w.admin
	}
	return w.a.owner
}

// hiddenFields sends with every body a field that the contract does not have.
func (w *fixture) hiddenFields(all []openapi.Operation) {
	for _, o := range all {
		if !takesJSON(o) {
			continue
		}
		properties := o.RequestBody.Value.Content["application/json"].Schema.Value.Properties
		for _, name := range hidden {
			if properties[name] != nil {
				continue
			}
			by := w.may(o)
			r := w.build(o, by, w.ids(cell{op: o, actor: by, at: own}, false))
			body := w.bodyOf(o)
			body[name] = "admin"
			r.body, _ = json.Marshal(body)
			w.changed()
			got := w.send(r)
			if got.status != http.StatusBadRequest || got.code() != "validation_error" {
				w.Errorf("%s with the field %s: %d %.200s", o.OperationID, name, got.status, got.body)
			}
			if wrote := w.changed(); len(wrote) > 0 {
				w.Errorf("%s with the field %s wrote %s", o.OperationID, name, wrote)
			}
		}
	}
}

// foreignCursors turns pages with the cursor of another tenant, and of another list.
func (w *fixture) foreignCursors(all []openapi.Operation) {
	lists := slices.DeleteFunc(slices.Clone(all), func(o openapi.Operation) bool { return !named(o, "/Cursor") })
	turn := func(o openapi.Operation, by *actor, query string) answer {
		r := w.build(o, by, w.ids(cell{op: o, actor: by, at: own}, false))
		r.path += query
		return w.send(r)
	}
	tried := 0
	for i, o := range lists {
		cursor := field(turn(o, w.may(o), "?limit=1").body, "next_cursor")
		if cursor == "" {
			continue
		}
		tried++
		others := []openapi.Operation{lists[(i+1)%len(lists)], lists[(i+5)%len(lists)]}
		for _, other := range others {
			if got := turn(other, w.may(other), "?cursor="+cursor); got.code() != "cursor_invalid" {
				w.Errorf("the cursor of %s at %s: %d %.200s", o.OperationID, other.OperationID, got.status, got.body)
			}
		}
		if ofOperators(o) {
			continue
		}
		if got := turn(o, w.b.owner, "?cursor="+cursor); got.code() != "cursor_invalid" {
			w.Errorf("%s: another tenant's cursor: %d %.200s", o.OperationID, got.status, got.body)
		}
		if got := turn(o, w.may(o), "?cursor="+cursor); got.status != http.StatusOK {
			w.Errorf("%s: its own cursor: %d %.200s", o.OperationID, got.status, got.body)
		}
	}
	if tried < len(lists)/2 {
		w.Errorf("only %d of %d lists had a second page: this test checks too little", tried, len(lists))
	}
}

// foreignNames names another tenant's project by its name instead of its id.
func (w *fixture) foreignNames(all []openapi.Operation) {
	name := queryOne[string](w.installation, `SELECT name FROM projects WHERE id = $1`, w.b.project)
	for _, o := range all {
		if !named(o, "/ProjectHeader") {
			continue
		}
		answers := []answer{}
		for _, project := range []string{name, w.unique("no-project")} {
			r := w.build(o, w.a.owner, w.ids(cell{op: o, actor: w.a.owner, at: own}, false))
			r.header.Set("X-Project-ID", project)
			answers = append(answers, w.send(r))
		}
		if why := differ(answers[0], answers[1]); why != "" || answers[0].status != http.StatusNotFound {
			w.Errorf("%s in another tenant's project by name: %d %s", o.OperationID, answers[0].status, why)
		}
	}
}

const (
	pairs = 9
	// tellable is the difference in time that an attacker across a network could measure.
	tellable = 20 * time.Millisecond
)

// sameTime compares the duration of a request with another tenant's id and with a random one. Other
// processes use this computer, so only a repeated difference counts.
func (w *fixture) sameTime(all []openapi.Operation) {
	for _, o := range all {
		if public(o) || ofOperators(o) {
			continue
		}
		for _, s := range slotsOf(w, o) {
			if global[s.kind] != "" {
				continue
			}
			for try := 1; ; try++ {
				apart := w.apart(o, s)
				if apart < tellable {
					break
				}
				if try == 3 {
					w.Errorf("%s: another tenant's %s needs %s more or less than a random one", o.OperationID, s.name, apart)
					break
				}
			}
		}
	}
}

func (w *fixture) apart(o openapi.Operation, s slot) time.Duration {
	by := w.a.owner
	took := map[whose][]time.Duration{}
	for range pairs {
		for _, at := range []whose{foreign, random} {
			got := w.send(w.build(o, by, w.ids(cell{o, by, at, s}, false)))
			took[at] = append(took[at], got.took)
		}
	}
	return (median(took[foreign]) - median(took[random])).Abs()
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// TestR11DeletedStaysDeleted follows every object of the contract that is made and
// deleted from the one to the other.
func TestR11DeletedStaysDeleted(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]openapi.Operation{}
	for _, o := range openapi.Operations(doc) {
		by[o.OperationID] = o
	}
	chains := 0
	for _, name := range sorted(by) {
		thing, ok := strings.CutPrefix(name, "delete")
		if create, makes := by["create"+thing]; ok && makes {
			chains++
			get, update := by["get"+thing], by["update"+thing]
			if thing == "Tenant" { // those are of the caller's own
				get, update = by["getTenantByID"], openapi.Operation{}
			}
			w.chain(doc, create, get, update, by[name], by["list"+thing+"s"])
		}
	}
	if chains < 6 {
		t.Errorf("only %d objects are made and deleted: this test checks the wrong operations", chains)
	}
}

func (w *fixture) chain(doc *openapi3.T, create, get, update, remove, list openapi.Operation) {
	owner := w.a.owner
	if ofOperators(create) {
		owner = w.actors[slices.IndexFunc(w.actors, func(a *actor) bool { return a.hasRole("admin") && a.rejection == "" })]
	}
	ids := w.ids(cell{op: create, actor: owner, at: own}, false)
	send := func(o openapi.Operation, ids map[slot]string) answer {
		r := w.build(o, owner, ids)
		got := w.send(r)
		if why := conforms(doc, o, r, got); why != "" {
			w.Errorf("%s: %s", o.OperationID, why)
		}
		return got
	}
	made := field(send(create, ids).body, "id")
	if made == "" {
		w.Errorf("%s made nothing", create.OperationID)
		return
	}
	of := w.ids(cell{op: remove, actor: owner, at: own}, false)
	for _, s := range slotsOf(w, remove) {
		of[s] = made // the last slot of the path is the object; the ones before are its owners'
	}
	for s := range of {
		for before, value := range ids {
			if before.name == s.name {
				of[s] = value
			}
		}
	}
	for _, step := range []struct {
		op     openapi.Operation
		status int
	}{
		{get, 200}, {update, 200}, {get, 200}, {remove, 204}, {get, 404}, {update, 404}, {remove, 404}, {get, 404},
	} {
		if step.op.Operation == nil {
			continue
		}
		got := send(step.op, of)
		if step.op.OperationID == "deleteCredential" && got.status == http.StatusNoContent {
			continue // a revoked one stays in sight, and is revoked
		}
		if step.op.OperationID == "deleteAutoTopup" && got.status == http.StatusNoContent {
			break // an ended one stays in sight
		}
		if got.status != step.status {
			w.Errorf("%s after %s: want %d, got %d %.200s", step.op.OperationID, create.OperationID, step.status, got.status, got.body)
		}
	}
	var page struct {
		Items []map[string]any `json:"items"`
	}
	_ = json.Unmarshal(send(list, ids).body, &page)
	for _, item := range page.Items {
		if item["id"] == made && item["revoked_at"] == nil && item["status"] != "ended" {
			w.Errorf("%s still shows %v", list.OperationID, item)
		}
	}
}
