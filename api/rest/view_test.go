package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/openapi"
)

const views = "/api/v3/"

// sections are those of a read model, as a client decodes them.
type sections map[string]oapi.Section[any]

func (b *fixture) sections(t testing.TB, path, token string) sections {
	t.Helper()
	w := b.do(t, call{method: "GET", path: path, token: token, header: inDefault(path)})
	all := sections{}
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return all
}

// inDefault names the project where the path does not.
func inDefault(path string) map[string]string {
	if !strings.HasPrefix(path, views+"access/me") {
		return map[string]string{"X-Project-ID": "default"}
	}
	return nil
}

// passed are the parameters with which sections call their operations.
var passed = map[string]string{
	"compute/overview allocations": "status=active&limit=10", "compute/allocations/{id} intervals": "allocation_id={id}",
	"access/projects/{project_id} usage": "by=user", "billing/overview usage": "by=day",
	"billing/overview auto_topups": "limit=10", "billing/overview payments": "limit=10", "billing/overview statements": "limit=10", "billing/overview ledger": "limit=10",
	"platform/fleet faults": "limit=10&status=open", "platform/ops faults": "limit=10&status=open", "platform/ops drift": "limit=10&status=open",
	"platform/ops plans": "limit=10&status=proposed", "platform/changes revisions": "limit=10",
	"platform/nodes/{name} allocations": "node={name}",
}

func readModels(b *fixture) []openapi.Operation {
	return slices.DeleteFunc(openapi.Operations(b.doc), func(op openapi.Operation) bool { return !strings.HasPrefix(op.Path, views) })
}

// TestSectionsShowTheirOperations compares each section with the response of its operation to the same caller: the
// document, and the denial.
func TestSectionsShowTheirOperations(t *testing.T) {
	t.Parallel()

	b := setup(t)
	id := b.allocate(t).Id.String()
	b.activate(id)
	shown := map[oapi.SectionStatus]int{}
	for _, op := range readModels(b) {
		for _, token := range []string{tokenOwner, tokenMember, tokenStranger, tokenOperator, tokenAdmin, tokenReader} {
			of := id
			if strings.HasPrefix(op.Path, views+"platform/changes/") {
				of = planID.String()
			}
			fill := strings.NewReplacer("{id}", of, "{kind}", "Node", "{name}", node, "{project_id}", project.String())
			path := fill.Replace(op.Path)
			w := b.do(t, call{method: "GET", path: path, token: token, header: inDefault(path)})
			if w.Code == http.StatusForbidden {
				continue
			}
			for name, s := range b.sections(t, path, token) {
				v1 := b.byID(t, s.Operation)
				query := fill.Replace(passed[strings.TrimPrefix(op.Path, views)+" "+name])
				got := b.do(t, call{method: "GET", path: fill.Replace(v1.Path) + "?" + query, token: token, header: only(v1, inDefault(path))})
				var want any
				must(t, json.Unmarshal(got.Body.Bytes(), &want))
				shown[s.Status]++
				where := op.OperationID + " " + name + " for " + token
				switch {
				case s.Status == oapi.SectionStatusRestricted && got.Code == http.StatusForbidden && *s.Reason == oapi.SectionReasonForbidden && s.Data == nil:
				case s.Status == oapi.SectionStatusOk && s.Data == nil && got.Code == http.StatusNotFound && *s.Reason == oapi.SectionReasonNotFound:
				case s.Status == oapi.SectionStatusOk && s.Data != nil && reflect.DeepEqual(sealed(*s.Data), sealed(want)):
				default:
					t.Errorf("%s is %+v\n%s responds with %d %s", where, s, s.Operation, got.Code, got.Body)
				}
			}
		}
	}
	if shown[oapi.SectionStatusOk] == 0 || shown[oapi.SectionStatusRestricted] == 0 || shown[oapi.SectionStatusDegraded] != 0 {
		t.Errorf("compared %v", shown)
	}
}

// sealed replaces the cursor of a list, which is never the same text twice, and the age of a meter, which grows between two reads.
func sealed(document any) any {
	switch d := document.(type) {
	case map[string]any:
		d = maps.Clone(d)
		for key, value := range d {
			d[key] = sealed(value)
			if value != nil && (key == "next_cursor" || key == "lag_seconds") {
				d[key] = "sealed"
			}
		}
		return d
	case []any:
		d = slices.Clone(d)
		for n := range d {
			d[n] = sealed(d[n])
		}
		return d
	}
	return document
}

func (b *fixture) byID(t testing.TB, id string) openapi.Operation {
	t.Helper()
	for _, op := range b.operations {
		if op.OperationID == id {
			return op
		}
	}
	t.Fatalf("the contract has no operation %q", id)
	return openapi.Operation{}
}

// only returns the headers that an operation accepts.
func only(op openapi.Operation, headers map[string]string) map[string]string {
	for _, p := range op.Parameters {
		if p.Value.Name == "X-Project-ID" {
			return headers
		}
	}
	return nil
}

// TestSlowSectionIsDegradedAlone locks the table of one section. The others are complete, and the response is not later
// than the time limit of the section.
func TestSlowSectionIsDegradedAlone(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.sections(t, views+"compute/overview", tokenOwner)
	tx, err := b.db.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE ssh_keys IN ACCESS EXCLUSIVE MODE`)
	must(t, err)
	began := time.Now()
	all := b.sections(t, views+"compute/overview", tokenOwner)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the response came after %s", took)
	}
	for name, s := range all {
		switch {
		case name != "ssh_keys" && s.Status != oapi.SectionStatusOk:
			t.Errorf("%s is %s as well", name, s.Status)
		case name == "ssh_keys" && (s.Status != oapi.SectionStatusDegraded || *s.Reason != oapi.SectionReasonTimeout || s.RunbookID == nil || s.Data != nil):
			t.Errorf("the slow section is %+v", s)
		}
	}
	must(t, tx.Rollback(t.Context()))
	if s := b.sections(t, views+"compute/overview", tokenOwner)["ssh_keys"]; s.Status != oapi.SectionStatusOk {
		t.Errorf("afterwards it is %+v", s)
	}
}

// A failed section contains nothing of the cause; the log has it.
func TestFailedSectionIsDegradedAlone(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.database.fail("FROM ssh_keys", 0, errors.New("password=hunter2"))
	all := b.sections(t, views+"compute/overview", tokenOwner)
	s := all["ssh_keys"]
	if s.Status != oapi.SectionStatusDegraded || *s.Reason != oapi.SectionReasonFailed || all["balance"].Status != oapi.SectionStatusOk {
		t.Errorf("%+v", s)
	}
	if !strings.Contains(b.log.String(), "hunter2") || strings.Contains(*s.Message, "hunter2") {
		t.Errorf("the message is %q, the log %s", *s.Message, b.log)
	}
}

// An error of the request about the list or the object of the screen is the response.
func TestReadModelRejectsAWrongRequest(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for range 2 {
		b.allocate(t)
	}
	list := views + "compute/allocations"
	data, _ := (*b.sections(t, list+"?limit=1&sort=name", tokenOwner)["allocations"].Data).(map[string]any)
	cursor := url.QueryEscape(fmt.Sprint(data["next_cursor"]))
	second, _ := (*b.sections(t, list+"?limit=1&sort=name&cursor="+cursor, tokenOwner)["allocations"].Data).(map[string]any)
	if items, _ := second["items"].([]any); len(items) != 1 || second["next_cursor"] != nil || reflect.DeepEqual(data["items"], second["items"]) {
		t.Errorf("the second page is %v after %v", second, data)
	}
	for path, want := range map[string]oapi.ErrorCode{
		list + "?cursor=" + cursor:                               "cursor_invalid", // of another sort
		list + "?sort=name&q=a&cursor=" + cursor:                 "cursor_invalid",
		list + "?sort=size":                                      "validation_error",
		list + "/" + unread:                                      "not_found",
		"/api/v1/allocations?limit=1&sort=name&cursor=" + cursor: "cursor_invalid",
	} {
		if w := b.do(t, call{method: "GET", path: path, token: tokenOwner, header: map[string]string{"X-Project-ID": "default"}}); w.Code < 400 || problem(t, w).Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// The list of another section continues at the operation that the section names.
func TestOtherListsContinueAtTheirOperation(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for i := range 60 {
		b.addProject(fmt.Sprintf("p-%02d", i))
	}
	data, _ := (*b.sections(t, views+"compute/launch", tokenOwner)["projects"].Data).(map[string]any)
	path := "/api/v1/projects?cursor=" + url.QueryEscape(fmt.Sprint(data["next_cursor"]))
	var rest oapi.ProjectList
	w := b.do(t, call{method: "GET", path: path, token: tokenOwner})
	if err := json.Unmarshal(w.Body.Bytes(), &rest); err != nil || len(rest.Items) != 61-50 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// The tag covers the whole response: a change of any section changes it.
func TestUnchangedReadModelIsNotSentAgain(t *testing.T) {
	t.Parallel()

	b := setup(t)
	path := views + "compute/launch"
	read := func(tag string) (int, string, int) {
		w := b.do(t, call{method: "GET", path: path, token: tokenOwner, header: map[string]string{"If-None-Match": tag, "X-Project-ID": "default"}})
		return w.Code, w.Header().Get("ETag"), w.Body.Len()
	}
	status, tag, _ := read("")
	if status != http.StatusOK || tag == "" {
		t.Fatalf("%d with the tag %q", status, tag)
	}
	if status, again, n := read(tag); status != http.StatusNotModified || again != tag || n != 0 {
		t.Errorf("unchanged: %d with the tag %q and %d bytes", status, again, n)
	}
	b.addProject("another")
	if status, changed, _ := read(tag); status != http.StatusOK || changed == tag {
		t.Errorf("changed: %d with the tag %q", status, changed)
	}
}

// The SKUs and the regions show the slots of one count.
func TestOffersCountTheSlotsOnce(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for _, model := range []string{"compute/offers", "compute/launch"} {
		b.database.watch("GROUP BY s.sku, s.region ORDER BY")
		all := b.sections(t, views+model, tokenOwner)
		if n, _ := b.database.counts(); n != 1 {
			t.Errorf("%s counts the slots %d times", model, n)
		}
		for _, name := range []string{"skus", "capacity"} {
			if s := all[name]; s.Status != oapi.SectionStatusOk || s.Data == nil {
				t.Errorf("%s %s: %+v", model, name, s)
			}
		}
	}
}

// A failed count degrades the sections that show it, and no other one.
func TestAFailedCountDegradesTheSectionsThatShowIt(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.database.fail("GROUP BY s.sku, s.region", 0, errors.New("the database is away"))
	for name, s := range b.sections(t, views+"compute/launch", tokenOwner) {
		want := oapi.SectionStatusOk
		if name == "skus" || name == "capacity" {
			want = oapi.SectionStatusDegraded
		}
		if s.Status != want {
			t.Errorf("%s is %s, want %s", name, s.Status, want)
		}
	}
}

// TestFleetIsFilteredAndSorted reads the nodes in pages of one.
func TestFleetIsFilteredAndSorted(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.sql(`UPDATE nodes SET health = 'degraded', created_at = now() + interval '1 hour' WHERE name = $1`, cordoned)
	for query, want := range map[string][]string{
		"": {object, cordoned, node}, "sort=-name": {node, cordoned, object}, "sort=-created_at&sku=a100": {cordoned},
		"sort=health": {cordoned, object, node}, "sort=-sku": {object, node, cordoned}, "sku=a100": {cordoned}, "health=degraded": {cordoned},
		"q=IM-": {node}, "region=nowhere": nil, "lifecycle=active&reachability=reachable&region=" + region: {object, cordoned, node},
	} {
		var got []string
		for cursor := ""; ; {
			data, _ := (*b.sections(t, views+"platform/fleet?limit=1&"+query+cursor, tokenOperator)["nodes"].Data).(map[string]any)
			items, _ := data["items"].([]any)
			for _, item := range items {
				one, _ := item.(map[string]any)
				got = append(got, fmt.Sprint(one["name"]))
			}
			if data["next_cursor"] == nil {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(fmt.Sprint(data["next_cursor"]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q lists %v, want %v", query, got, want)
		}
	}
}

// statements counts what a pool sends, also in batches.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) { s.n.Add(1) }
func (*statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)       {}

// TestReadModelsSendAsManyStatementsForMoreRows compares the statements of each read model with few and with many
// allocations, nodes and projects.
func TestReadModelsSendAsManyStatementsForMoreRows(t *testing.T) {
	t.Parallel()

	config := filled.Clone(t).Config()
	sent := &statements{}
	config.ConnConfig.Tracer = sent
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(db.Close)
	b := setupOn(t, db)
	id := b.allocate(t).Id.String()
	b.activate(id)
	count := func() map[string]int64 {
		all := map[string]int64{}
		for range 2 { // the first time fills caches
			for _, op := range readModels(b) {
				token := tokenOwner
				if strings.HasPrefix(op.Path, views+"platform") {
					token = tokenAdmin
				}
				path := strings.NewReplacer("{id}", id, "{name}", node, "{project_id}", project.String()).Replace(op.Path)
				if strings.Contains(op.Path, "changes/{id}") {
					path = strings.Replace(op.Path, "{id}", planID.String(), 1)
				}
				sent.n.Store(0)
				for name, s := range b.sections(t, path, token) {
					if s.Status == oapi.SectionStatusDegraded {
						t.Errorf("%s of %s is degraded: %s", name, path, *s.Message)
					}
				}
				all[op.OperationID] = sent.n.Load()
			}
		}
		return all
	}
	b.grow(id, 9)
	few := count()
	b.grow(id, 990)
	many := count()
	if !maps.Equal(few, many) {
		t.Errorf("with few rows %v\nwith many    %v", few, many)
	}
	for id, n := range many {
		if n == 0 {
			t.Errorf("%s sends no statement", id)
		}
	}
	t.Logf("statements: %v", many)
}

// grow adds rows to what the lists of read models show.
func (b *fixture) grow(allocation string, n int) {
	b.Helper()
	b.sql(`INSERT INTO allocations SELECT (jsonb_populate_record(a, jsonb_build_object('id', gen_random_uuid(), 'name', 'grown-' || gen_random_uuid(), 'status', 'released', 'ended_at', now()))).*
		FROM allocations a, generate_series(1, $2::int) WHERE a.id = $1`, allocation, n)
	b.sql(`INSERT INTO nodes (id, name, spec, lifecycle, health, reachability, topology)
		SELECT gen_random_uuid(), 'grown-' || gen_random_uuid(), spec, 'active', 'healthy', 'reachable', '{}' FROM nodes, generate_series(1, $2::int) WHERE name = $1`, object, n)
	b.sql(`INSERT INTO projects (id, org_id, name) SELECT gen_random_uuid(), $1, 'grown-' || gen_random_uuid() FROM generate_series(1, $2::int)`, tenant, n)
	b.sql(`INSERT INTO usage_records (id, allocation_id, org_id, project_id, user_id, sku, gpus, price_minor, currency, account_id, start_s, end_s, opened_observation, closed_by)
		SELECT gen_random_uuid(), a.id, a.org_id, a.project_id, a.user_id, a.sku, 1, 1, 'EUR', l.id, $2::bigint, $2::bigint + 60, '{"fence":1}', 'release_requested'
		FROM allocations a, ledger_accounts l WHERE l.org_id = a.org_id AND a.org_id = $1 AND NOT EXISTS (SELECT FROM usage_records u WHERE u.allocation_id = a.id)`,
		tenant, t0.Add(-time.Hour).Unix())
}
