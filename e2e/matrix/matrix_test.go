package matrix_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// cell is one operation, one actor, and the owner of the ids.
type cell struct {
	op    openapi.Operation
	actor *actor
	at    whose
	slot  slot // the one whose id is not the actor's own
}

func (c cell) String() string {
	where := ""
	if c.at != own {
		where = " in " + c.slot.name
	}
	return fmt.Sprintf("%s × %s × %s id%s", c.op.OperationID, c.actor.name, c.at, where)
}

// cells returns every operation of the contract with every actor, and for every id an own one,
// another tenant's and a random one.
func (w *fixture) cells() (all []cell) {
	doc, err := openapi.Document()
	if err != nil {
		w.Fatal(err)
	}
	for _, o := range openapi.Operations(doc) {
		for _, a := range w.actors {
			all = append(all, cell{op: o, actor: a, at: own})
			for _, s := range slotsOf(w, o) {
				if _, ownerless := global[s.kind]; !ownerless && !platforms[s.kind] {
					all = append(all, cell{o, a, foreign, s})
				}
				if s.kind == "ProjectHeader" {
					all = append(all, cell{o, a, absent, s})
				}
				if !unguessed[s.kind] {
					all = append(all, cell{o, a, random, s})
				}
			}
		}
	}
	return all
}

// ids returns the ids of a cell. An object that a permitted cell consumes is created for it.
func (w *fixture) ids(c cell, consumed bool) map[slot]string {
	s, by := c.actor.side, c.actor
	if s == nil {
		s = w.a
	}
	if by.user == uuid.Nil {
		by = s.owner
	}
	if c.at == foreign && by.operates() {
		s = w.otherOf(s) // what operators name is all of one tenant
	}
	ids := map[slot]string{}
	if consumed && c.op.OperationID == "clearBreaker" {
		w.sql(`INSERT INTO breaker_trips (held, allowed, fleet, reason, rejected_nodes) VALUES (2, 2, 9, 'n', '{}') ON CONFLICT DO NOTHING`)
	}
	slots := slotsOf(w, c.op)
	if consumed && usesFile(c.op) {
		ids[ofFile] = w.file(s, "file")
	}
	last := slot{}
	for _, one := range slots {
		if one.in == "path" {
			last = one
		}
	}
	for _, one := range slots {
		_, ownerless := global[one.kind]
		switch {
		case c.at == absent && one == c.slot:
		case c.at == random && one == c.slot:
			ids[one] = id().String()
		case one.kind == "ProjectHeader" && c.actor.side == nil && !c.actor.hasRole("admin") && one != c.slot:
			// Has no project to name.
		case c.at == foreign && one == c.slot && (!by.operates() || personal[one.kind] && !ofOperators(c.op)):
			ids[one] = w.otherOf(s).objects[one.kind]
		case consumed && one == last && (one.kind == "ObjectName" || one.kind == "NodeName" || platforms[one.kind]):
			ids[one] = w.fresh(one.kind, s, c.actor)
		case consumed && one.kind == "AllocationID" && slices.Contains([]string{"createSshCertificate", "createTerminalToken", "reportAllocationFault"}, c.op.OperationID):
			ids[one] = w.activate(w.fresh(one.kind, s, by))
		case consumed && one.kind == "AllocationID" && c.op.OperationID == "forceReleaseAllocation":
			ids[one] = w.move(w.fresh(one.kind, s, by), "requested", "provisioning", "active", "releasing", "release_failed")
		case consumed && c.op.OperationID == "resetNodeGpu" && one.kind == "NodeName":
			ids[one] = w.quarantined()
		case consumed && (one.kind == "DeadLetterID" || one.kind == "StorageObjectID" || one.kind == "StorageUploadID"):
			ids[one] = w.fresh(one.kind, s, c.actor)
		case consumed && one.kind == "GpuUUID":
			ids[one] = "GPU-" + ids[slots[0]]
		case ownerless:
			ids[one] = global[one.kind]
		case consumed && one == last || personal[one.kind]:
			ids[one] = w.mine(one.kind, s, by, consumed)
		default:
			ids[one] = s.objects[one.kind]
		}
	}
	return ids
}

// mine returns an object of the actor. Cells that consume nothing share it.
func (w *fixture) mine(kind string, s *side, by *actor, consumed bool) string {
	if consumed {
		return w.fresh(kind, s, by)
	}
	key := kind + " of " + by.user.String()
	if s.objects[key] == "" {
		s.objects[key] = w.fresh(kind, s, by)
	}
	return s.objects[key]
}

func (w *fixture) otherOf(s *side) *side {
	if s == w.a {
		return w.b
	}
	return w.a
}

// sendCell sends the request of a cell, checks the response, and returns it with the written rows.
func (w *fixture) sendCell(c cell, v verdict, ids map[slot]string) (answer, change) {
	w.changed()
	got := w.send(w.build(c.op, c.actor, ids))
	wrote := w.changed()
	switch {
	case !slices.Contains(v.statuses, got.status),
		len(v.codes) > 0 && !slices.Contains(v.codes, got.code()), got.status >= 400 && got.code() == "":
		w.Errorf("%s: want %v %v, got %d %.300s", c, v.statuses, v.codes, got.status, got.body)
	case !v.changes && len(wrote) > 0:
		w.Errorf("%s: answered %d and wrote %s", c, got.status, wrote)
	}
	return got, wrote
}

// TestINV55TheMatrix sends every cell, or in a fast run a sample of them. Only permitted cells may change
// rows, and each privileged change writes one audit row (INV-58). Another tenant's id gets the response
// of an id that never existed (INV-56).
func TestINV55TheMatrix(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.watch()
	all := w.cells()
	if !whole {
		all = w.sample(all)
	}
	denied := func(run string) {
		unknown := map[string]answer{}
		for _, c := range all {
			v := expect(t, c.op, c.actor, c.at, c.slot)
			if v.changes {
				continue
			}
			got, _ := w.sendCell(c, v, w.ids(c, false))
			key := c.op.OperationID + c.actor.name + c.slot.in + c.slot.name
			if c.at == foreign && !v.allows() && !c.actor.hasRole("admin") { // to whom no tenant is foreign
				unknown[key] = got
			}
			if first, asked := unknown[key]; asked && c.at == random {
				if why := differ(first, got); why != "" {
					t.Errorf("%s: %s: another tenant's id differs from a random one: %s", run, c, why)
				}
			}
		}
	}
	began := time.Now()
	denied("first run")
	t.Logf("%d cells of %d actors; denied ones took %s", len(all), len(w.actors), time.Since(began))
	diff := pgtest.Diff(t, w.db, pgtest.Without(unwatched...), pgtest.Also("river.river_job"))
	denied("second run")
	if changes := uses(diff()); changes != "" {
		t.Errorf("the second run of what is denied changed\n%s", changes)
	}
	for _, c := range all {
		if v := expect(t, c.op, c.actor, c.at, c.slot); v.changes {
			w.permitted(c, v)
		}
	}
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	w.hiddenFields(openapi.Operations(doc))
	w.foreignNames(openapi.Operations(doc))
	w.foreignCursors(openapi.Operations(doc))
	if whole {
		w.sameTime(openapi.Operations(doc))
	}
	t.Logf("all took %s", time.Since(began))
}

// uses removes the use of a token from a diff.
func uses(diff string) string {
	lines := strings.SplitAfter(diff, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		_, columns, _ := strings.Cut(line, ": ")
		return strings.HasPrefix(line, "~ ") && strings.HasPrefix(columns, "last_used_at: ") && !strings.Contains(columns, ", ")
	}), "")
}

// ends lists the calls after which the actor's token may be invalid.
var ends = map[string]bool{"logout": true, "setPassword": true}

// permitted sends the request of a cell that may change rows, and checks which rows it changed.
func (w *fixture) permitted(c cell, v verdict) {
	ids := w.ids(c, true)
	_, wrote := w.sendCell(c, v, ids)
	if ends[c.op.OperationID] {
		w.renew(c.actor)
	}
	if w.Failed() && len(wrote) == 0 {
		return // was reported
	}
	may, known := changes[c.op.OperationID]
	if !known {
		w.Errorf("%s wrote %s: add its tables to changes", c, wrote)
		return
	}
	for _, table := range wrote.tables() {
		if table != "audit_logs" && !slices.Contains(may, table) {
			w.Errorf("%s: wrote into %s: %s", c, table, wrote)
		}
	}
	if c.op.OperationID == "logout" && len(wrote) == 0 {
		return // a key is no sign-in that could end
	}
	if want := audits(c.op); wrote["INSERT audit_logs"] != want {
		w.Errorf("%s: %d audit rows instead of %d: %s", c, wrote["INSERT audit_logs"], want, wrote)
	}
}

// differ describes the differences of two error responses, except for the ids of the request.
func differ(a, b answer) string {
	if a.status != b.status {
		return fmt.Sprintf("%d and %d", a.status, b.status)
	}
	if x, y := plain(a), plain(b); !bytes.Equal(x, y) {
		return fmt.Sprintf("%s and %s", x, y)
	}
	for _, name := range sorted(a.header) {
		if slices.Contains(ofThisRequest, name) {
			continue
		}
		if !slices.Equal(a.header[name], b.header[name]) {
			return fmt.Sprintf("%s: %q and %q", name, a.header[name], b.header[name])
		}
	}
	return ""
}

// ofThisRequest lists the headers that differ between any two responses.
var ofThisRequest = []string{
	"Date", "X-Correlation-Id", "Traceparent", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit", "Content-Length",
}

// plain returns the body without the ids of this request.
func plain(a answer) []byte {
	body := a.body
	for _, name := range []string{"correlation_id", "instance"} {
		if text := field(a.body, name); text != "" {
			body = bytes.ReplaceAll(body, []byte(text), []byte("…"))
		}
	}
	return body
}
