package webhook_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
)

// The events that an endpoint can receive are those of the contract, but dead letters.
func TestSubjectsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	text, err := asyncapi.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var contract struct {
		Channels map[string]struct{ Address string }
	}
	if err := json.Unmarshal(text, &contract); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, c := range contract.Channels {
		if !strings.HasPrefix(c.Address, "dlq.") {
			want = append(want, c.Address)
		}
	}
	slices.Sort(want)
	got := slices.Concat(slices.Collect(maps.Values(webhook.ByStream))...)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("subjects %v, want %v", got, want)
	}
	for _, s := range webhook.Subjects() {
		if strings.HasPrefix(s, "fleet.") && s != "fleet.node_retiring" {
			t.Errorf("%s belongs to no tenant", s)
		}
	}
	for stream, subjects := range webhook.ByStream {
		for _, s := range subjects {
			if !strings.HasPrefix(s, strings.ToLower(stream)+".") {
				t.Errorf("%s is not of stream %s", s, stream)
			}
		}
	}
}

func TestPatternsAreChecked(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"*", ">", "**", ".*", "provisioning.>", "provisioning.*.*", "provisioning.act*", "provisioning", "dlq.*", "dlq.provisioning.provisioning.active", "unknown.*", "provisioning.unknown", "fleet.node_drained", "", " provisioning.*", "webhook.test"} {
		_, err := webhook.CheckPatterns(ids.Project{}, []string{"billing.*", p})
		if errs.CodeOf(err) != errs.ValidationError || !strings.Contains(fmt.Sprint(errs.DetailsOf(err)), "provisioning.active") {
			t.Errorf("%q: %v", p, err)
		}
	}
	got, err := webhook.CheckPatterns(ids.Project{}, []string{"provisioning.releasing.*", "billing.refunded", "provisioning.*"})
	if err == nil {
		t.Errorf("billing.refunded became %v", got)
	}
	got, err = webhook.CheckPatterns(ids.Project{}, []string{"provisioning.releasing.*", "provisioning.*", "provisioning.*"})
	if err != nil || !slices.Equal(got, []string{"provisioning.*", "provisioning.releasing.*"}) {
		t.Errorf("%v, %v", got, err)
	}
}

// The policy limits the endpoints of a tenant, also for requests at the same time. Names are unique in a tenant.
func TestEndpointsAreLimited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limit = 3
	create := func(tenant ids.Tenant, name string) error {
		_, err := b.api.Create(b.as(tenant), change[webhook.Endpoint](b.caller(tenant)), webhook.Scope{Tenant: tenant}, webhook.NewEndpoint{
			Name: name, URL: "https://hooks.example.com/", Patterns: []string{"billing.*"}, Format: webhook.Standard, Signature: webhook.Symmetric,
		})
		return err
	}
	results := make(chan error, 8)
	for i := range cap(results) {
		go func() { results <- create(b.tenant, fmt.Sprintf("w-%d", i)) }()
	}
	made := 0
	for range cap(results) {
		switch err := <-results; {
		case err == nil:
			made++
		case errs.CodeOf(err) != errs.PolicyDenied:
			t.Error(err)
		}
	}
	if made != 3 {
		t.Errorf("%d endpoints, the limit is 3", made)
	}
	b.limit = 10
	if err := create(b.tenant, "w-x"); err != nil {
		t.Error(err)
	}
	if err := create(b.tenant, "w-x"); errs.CodeOf(err) != errs.AlreadyExists {
		t.Errorf("a second one of the name: %v", err)
	}
	if err := create(b.other, "w-x"); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

// An administrator of a project creates endpoints of this project only.
func TestProjectsLimitTheirAdministrators(t *testing.T) {
	t.Parallel()
	b := setup(t)
	scope := webhook.Scope{Tenant: b.tenant, Project: b.project}
	n := webhook.NewEndpoint{Name: "w", URL: "https://hooks.example.com/", Patterns: []string{"billing.*"}, Format: webhook.Standard, Signature: webhook.Symmetric}
	if _, err := b.api.Create(b.as(b.tenant), change[webhook.Endpoint](b.caller(b.tenant)), scope, n); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("events of the tenant: %v", err)
	}
	n.Patterns = []string{"provisioning.*"}
	e, err := b.api.Create(b.as(b.tenant), change[webhook.Endpoint](b.caller(b.tenant)), scope, n)
	if err != nil || e.Project != b.project {
		t.Fatalf("%v, %v", e.Project, err)
	}
	n.Name, n.Project = "v", ids.New[ids.Project]()
	if _, err := b.api.Create(b.as(b.tenant), change[webhook.Endpoint](b.caller(b.tenant)), scope, n); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("an endpoint of another project: %v", err)
	}
	if _, err := b.api.Create(b.as(b.tenant), change[webhook.Endpoint](b.caller(b.tenant)), webhook.Scope{Tenant: b.tenant}, n); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("an endpoint of a project that does not exist: %v", err)
	}
}

// A changed endpoint has its version, and a deleted one receives nothing and has no secret.
func TestEndpointsAreChangedAndDeleted(t *testing.T) {
	t.Parallel()
	b, r := setup(t), newReceiver(t)
	e := b.endpoint(b.tenant, webhook.NewEndpoint{URL: r.URL})
	scope, name := webhook.Scope{Tenant: b.tenant}, "renamed"
	ch := change[webhook.Endpoint](b.caller(b.tenant))
	next, err := b.api.Update(b.as(b.tenant), ch, scope, e.ID, 1, webhook.Patch{Name: &name, Patterns: []string{"billing.*"}})
	if err != nil || next.Version != 2 || next.Name != name || !slices.Equal(next.Patterns, []string{"billing.*"}) {
		t.Fatalf("%+v, %v", next, err)
	}
	if _, err := b.api.Update(b.as(b.tenant), ch, scope, e.ID, 1, webhook.Patch{Name: &name}); errs.CodeOf(err) != errs.VersionMismatch {
		t.Errorf("an old version: %v", err)
	}
	disabled := true
	if next, err = b.api.Update(b.as(b.tenant), ch, scope, e.ID, 2, webhook.Patch{Disabled: &disabled}); err != nil || next.DisabledReason != "user" {
		t.Fatal(next, err)
	}
	b.dispatch(draft(b.tenant, ids.Project{}, "billing.balance_depleted"))
	if d := b.list(e); len(d) != 1 || d[0].Status != "skipped" {
		t.Errorf("%+v", d)
	}
	if err := b.api.Delete(b.as(b.tenant), change[struct{}](b.caller(b.tenant)), scope, e.ID, next.Version); err != nil {
		t.Fatal(err)
	}
	b.dispatch(draft(b.tenant, ids.Project{}, "billing.balance_depleted"))
	if b.deliver(e.ID); len(r.all()) != 0 || b.count(`SELECT count(*) FROM webhook_endpoints`) != 0 {
		t.Error("a deleted endpoint is left")
	}
	if n := b.count(`SELECT count(*) FROM audit_logs WHERE action LIKE 'webhook.%'`); n != 4 {
		t.Errorf("%d audit rows", n)
	}
}

// Whatever tenants, projects and patterns there are: an endpoint gets exactly the events of its tenant and project that
// match a pattern.
func TestPropertyTenantsAreIsolated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	subjects := []string{"provisioning.active", "provisioning.releasing.completed", "billing.balance_depleted", "fleet.node_retiring"}
	patterns := []string{"provisioning.*", "provisioning.active", "provisioning.releasing.*", "billing.*", "fleet.*"}
	matches := map[string][]string{
		subjects[0]: {"provisioning.*", "provisioning.active"}, subjects[1]: {"provisioning.*", "provisioning.releasing.*"}, subjects[2]: {"billing.*"}, subjects[3]: {"fleet.*"},
	}
	rapid.Check(t, func(rt *rapid.T) {
		tenants := []ids.Tenant{{}, ids.New[ids.Tenant](), ids.New[ids.Tenant](), ids.New[ids.Tenant]()}
		projects := []ids.Project{{}, ids.New[ids.Project](), ids.New[ids.Project]()}
		type endpoint struct {
			id       ids.Webhook
			tenant   ids.Tenant
			project  ids.Project
			patterns []string
		}
		var endpoints []endpoint
		for range rapid.IntRange(1, 6).Draw(rt, "endpoints") {
			e := endpoint{
				ids.New[ids.Webhook](), rapid.SampledFrom(tenants[1:]).Draw(rt, "tenant"), rapid.SampledFrom(projects).Draw(rt, "project"),
				rapid.SliceOfNDistinct(rapid.SampledFrom(patterns), 1, 3, rapid.ID[string]).Draw(rt, "patterns"),
			}
			b.exec(`INSERT INTO webhook_endpoints (id, org_id, project_id, name, url, patterns, format, signature, secret_enc, created_by)
				VALUES ($1::uuid, $2, nullif($3, '00000000-0000-0000-0000-000000000000'::uuid), ($1::uuid)::text, 'https://a.example/', $4, 'standard', 'v1', '', 'u')`, e.id, e.tenant, e.project, e.patterns)
			endpoints = append(endpoints, e)
		}
		want := map[string]bool{}
		for range rapid.IntRange(1, 8).Draw(rt, "events") {
			e := draft(rapid.SampledFrom(tenants).Draw(rt, "of"), rapid.SampledFrom(projects).Draw(rt, "in"), rapid.SampledFrom(subjects).Draw(rt, "subject"))
			b.dispatch(e)
			for _, to := range endpoints {
				fits := slices.ContainsFunc(matches[e.Type], func(p string) bool { return slices.Contains(to.patterns, p) })
				if fits && e.Tenant == to.tenant && (to.project == ids.Project{} || to.project == e.Project) {
					want[to.id.String()+" "+e.ID.String()] = true
				}
			}
		}
		got := map[string]bool{}
		for _, to := range endpoints {
			rows, err := b.db.Query(t.Context(), `SELECT event_id::text FROM webhook_deliveries WHERE endpoint_id = $1 AND org_id = $2`, to.id, to.tenant)
			if err != nil {
				rt.Fatal(err)
			}
			events, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				rt.Fatal(err)
			}
			for _, e := range events {
				got[to.id.String()+" "+e] = true
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("deliveries %v, want %v", got, want)
		}
	})
}

// An event of a tenant with a thousand endpoints is dispatched to each of them.
func TestAThousandEndpoints(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO webhook_endpoints (id, org_id, name, url, patterns, format, signature, secret_enc, created_by)
		SELECT gen_random_uuid(), $1, 'w-' || n, 'https://a.example/', '{provisioning.*}', 'standard', 'v1', '', 'u' FROM generate_series(1, 1000) n`, b.tenant)
	e := draft(b.tenant, b.project, "provisioning.active")
	b.dispatch(e)
	b.dispatch(e)
	if n, m := b.count(`SELECT count(*) FROM webhook_deliveries`), b.count(`SELECT count(*) FROM river.river_job`); n != 1_000 || m != 1_000 {
		t.Errorf("%d deliveries, %d jobs", n, m)
	}
}
