package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// scene is a loop and the rows that it reads, by the names of a scenario.
type scene struct {
	*Loop

	t      *testing.T
	db     pg.Pool
	names  map[string]string // uuid → name
	limits Limits
}

func newScene(t *testing.T, db pg.Pool) *scene {
	t.Helper()
	client, err := river.NewClient(riverpgxv5.New(nil), &river.Config{Schema: migrations.RiverSchema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, db: db, names: map[string]string{}, limits: Limits{
		Limits: plan.Limits{
			Deadlines:         plan.Deadlines{Provision: 15 * time.Minute, Release: 15 * time.Minute},
			ProvisionAttempts: 3, ReleaseAttempts: 5, RetryAfter: 10 * time.Second, Drift: map[desired.Kind]plan.Rule{},
		},
		Enabled: true, SweepEvery: tick, MassReleases: 2, MassNodes: 1, MassPercent: 40,
	}}
	s.Loop = &Loop{
		DB: db, Jobs: client, Desired: &desired.Store{DB: db, Hints: &hint.Bus{}}, Hints: &hint.Bus{},
		Limits: func() Limits { return s.limits }, Log: slog.New(slog.DiscardHandler),
	}
	s.exec(`INSERT INTO tenants (id, name) VALUES ($1, 't')`, s.id("tenant"))
	s.exec(`INSERT INTO projects (id, org_id, name) VALUES ($1, $2, 'p')`, s.id("project"), s.id("tenant"))
	s.exec(`INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, 'u', 'u', 'u', 'user')`, s.id("user"))
	return s
}

// id is the same for a name in every run.
func (s *scene) id(name string) uuid.UUID {
	id := uuid.NewSHA1(uuid.NameSpaceOID, []byte(name))
	s.names[id.String()] = name
	return id
}

func (s *scene) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Exec(context.WithoutCancel(s.t.Context()), sql, args...); err != nil {
		s.t.Fatalf("%v\n%s", err, sql)
	}
}

// options is one parsed line of a scenario: a verb, a name, and key=value pairs.
type options map[string]string

func (w options) valueOr(key, otherwise string) string {
	if v, ok := w[key]; ok {
		return v
	}
	return otherwise
}

// line writes the rows of one line:
//
//	declare NAME kind=SKU generation=2 fence=2 node=n1 released deleted
//	        drift=warn ignore=/keys,owner=ada,until=1h suspended=1h (or suspended=)
//	        by=git source=fleet commit=c1 sku=h100 gpus=2 serials=a,b cordoned model=H100 price=299
//	carried NAME kind=SKU generation=1 epoch=1 gone
//	node    NAME stale silent partial shows=H100:a,H100:b cordoned
//	seen    NAME node=n1 phase=ready fence=1 failures=2 failed=1 message=keys:_2,_expected_1 unproven
//	state   NAME active since=1h expires=-1s price=500
//	due     NAME kind=Allocation asked=ensure
//	drift   NAME field=keys kind=Allocation desired=1 observed=2 ignored=user:ada until=1h
//	rule    KIND warn
//	change  SOURCE commit=c1 status=applied
func (s *scene) line(text string) {
	s.t.Helper()
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return
	}
	w := options{}
	for _, f := range fields[2:] {
		key, value, _ := strings.Cut(f, "=")
		w[key] = value
	}
	name, id := fields[1], s.id(fields[1])
	switch fields[0] {
	case "declare":
		_, deleted := w["deleted"]
		_, released := w["released"]
		s.exec(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, generation, fence, epoch, owner, deleted_at, path, source, commit, annotations, suspended_by, suspended_at, suspended_until)
			VALUES ($1, $2, $3, $4, 'hash-' || $5::text, $5::text::bigint, $6::text::bigint, $7::text::bigint, $8, CASE WHEN $9 THEN now() END, 'a.cue', $10, $11, $12,
				$13, CASE WHEN $13 <> '' THEN now() END, now() + nullif($14::text, '')::interval)`,
			id, w.valueOr("kind", "Allocation"), name, s.spec(w, released), w.valueOr("generation", w.valueOr("fence", "1")), w.valueOr("fence", "1"), w.valueOr("epoch", "0"), w.valueOr("by", "api"), deleted,
			w["source"], w["commit"], map[string]string{desired.AnnotationDrift: w["drift"], desired.AnnotationIgnore: s.ignore(w["ignore"])}, w.whose("suspended"), w["suspended"])
	case "carried":
		_, gone := w["gone"]
		s.exec(`INSERT INTO observed_objects (uid, kind, generation, spec_hash, gone, epoch) VALUES ($1, $2, $3::text::bigint, 'hash-' || $3::text, $4, $5::text::bigint)`, id, w["kind"], w.valueOr("generation", "1"), gone, w.valueOr("epoch", "0"))
	case "node":
		_, stale := w["stale"]
		_, partial := w["partial"]
		_, silent := w["silent"]
		_, cordoned := w["cordoned"]
		s.exec(`INSERT INTO observed_nodes (node_id, boot, boot_id, sequence, complete, agent, capability, inventory, content_hash, observed_at, stale_at, devices)
			VALUES ($1, 1, 'b', 1, $2, '1', 1, '{}', 'h', now(), now() + CASE WHEN $3 THEN '-1 s' ELSE '1 min' END::interval, $4)`, id, !partial, stale, shows(w))
		s.exec(`INSERT INTO nodes (id, name, spec, lifecycle, reachability) VALUES ($1, $2, jsonb_build_object('sku', 's', 'region', 'r', 'gpus', 1, 'cordoned', $4::boolean), 'active', CASE WHEN $3 THEN 'stale' ELSE 'reachable' END)`, id, name, silent, cordoned)
	case "seen":
		_, unproven := w["unproven"]
		proof := fmt.Sprintf(`{"fence": %s, "leftovers": []}`, w.valueOr("fence", "1"))
		if unproven || w["phase"] != "gone" {
			proof = "null"
		}
		s.exec(`INSERT INTO observed_allocations (allocation_id, node_id, phase, fence, observed_generation, spec_hash, message, proof, failures, failed_fence, observed_at)
			VALUES ($1, $2, $3, $4::text::bigint, 1, 'hash-' || $5::text, $6, nullif($7::jsonb, 'null'), $8::text::int, $9::text::bigint, now())`,
			id, s.id(w.valueOr("node", "n1")), w["phase"], w.valueOr("fence", "1"), w.valueOr("hash", w.valueOr("fence", "1")), strings.ReplaceAll(w["message"], "_", " "), proof, w.valueOr("failures", "0"), w.valueOr("failed", "0"))
	case "state":
		s.exec(`INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, node_id, price_minor, currency, login, host_uid, status, status_at, active_at, ended_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, 's', 'r', 1, $6, $10::text::bigint, 'EUR', 'u', 200000, $7, now() - $8::text::interval, now(),
				CASE WHEN $7 IN ('released', 'failed') THEN now() END, now() + nullif($9::text, '')::interval)`,
			id, s.id("tenant"), s.id("project"), s.id("user"), name, s.id(w.valueOr("node", "n1")), fields[2], w.valueOr("since", "0 s"), w["expires"], w.valueOr("price", "0"))
	case "due":
		s.exec(`INSERT INTO reconcile_due (kind, object_id, due_at, reason) VALUES ($1, $2, now(), 'marked')`, w.valueOr("kind", "Allocation"), id)
	case "asked": // under way since the last plan
		s.exec(`UPDATE reconcile_due SET previous_verb = $2, previous_fence = 1, previous_generation = 1, previous_until = now() + interval '4 s' WHERE object_id = $1`, id, fields[2])
	case "drift":
		status, by := "open", w["ignored"]
		if by != "" {
			status = "ignored"
		}
		s.exec(`INSERT INTO drift (kind, object_id, name, field, desired, observed, status, cause, deadline_at, ignored_by, ignored_until, owner, opened_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, 'changed on the node', CASE WHEN $7 = 'open' THEN now() + interval '1 min' END, $8, now() + nullif($9::text, '')::interval,
				CASE WHEN $7 = 'open' THEN 'platform' ELSE 'operator' END, now() - interval '1 h')`,
			w.valueOr("kind", "Allocation"), id, name, w.valueOr("field", "keys"), strings.ReplaceAll(w.valueOr("desired", "as ordered"), "_", " "), strings.ReplaceAll(w.valueOr("observed", "2"), "_", " "), status, by, w["until"])
	case "rule":
		s.limits.Drift[desired.Kind(name)] = plan.Rule(fields[2])
	case "change": // a person has decided about it
		s.exec(`INSERT INTO plans (id, hash, status, actions, origin, source, commit, decided_by, decided_at) VALUES ($1, 'h', $2, 0, 'change', $3, $4, 'user:ada', now())`,
			id, w.valueOr("status", "applied"), name, w["commit"])
	default:
		s.t.Fatalf("no such line: %s", text)
	}
}

// whose returns an actor if the key is present.
func (w options) whose(key string) string {
	if _, there := w[key]; there {
		return "user:ada"
	}
	return ""
}

func (w options) number(key string) (n int) {
	_, _ = fmt.Sscan(w[key], &n)
	return n
}

func (w options) list(key string) []string {
	if w[key] == "" {
		return nil
	}
	return strings.Split(w[key], ",")
}

// spec returns the fields that the loop reads, for any kind.
func (s *scene) spec(w options, released bool) map[string]any {
	_, cordoned := w["cordoned"]
	spec := map[string]any{
		"node": s.id(w.valueOr("node", "n1")), "released": released, "gpuUUIDs": []string{}, "gpus": w.number("gpus"), "sku": w["sku"], "cordoned": cordoned,
		"gpuModel": w["model"], "price": map[string]any{"amountMinor": w.number("price"), "currency": "EUR"},
	}
	if serials := w.list("serials"); serials != nil {
		spec["serials"] = serials
	}
	return spec
}

// ignore writes the annotation: the time of a scenario is relative.
func (s *scene) ignore(text string) string {
	s.t.Helper()
	text, until, _ := strings.Cut(strings.ReplaceAll(text, ",", " "), "until=")
	if until == "" {
		return text
	}
	var at time.Time
	if err := s.db.QueryRow(s.t.Context(), `SELECT now() + $1::text::interval`, until).Scan(&at); err != nil {
		s.t.Fatal(err)
	}
	return text + "until=" + at.UTC().Format(time.RFC3339Nano)
}

func shows(w options) any {
	text, reported := w["shows"]
	if !reported {
		return nil
	}
	devices := []observed.Device{}
	for d := range strings.SplitSeq(text, ",") {
		if model, serial, ok := strings.Cut(d, ":"); ok {
			devices = append(devices, observed.Device{Model: model, Serial: serial})
		}
	}
	return devices
}

// listed reads one column of text, with names in place of ids.
func (s *scene) listed(sql string) string {
	s.t.Helper()
	rows, err := s.db.Query(s.t.Context(), sql)
	if err != nil {
		s.t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.t.Fatal(err)
	}
	text := ""
	for _, l := range list {
		text += strings.TrimSpace(l) + "\n"
	}
	for id, name := range s.names {
		text = strings.ReplaceAll(text, id, name)
	}
	return sorted(text)
}

// The four answers of a pass.
func (s *scene) plan() string {
	return s.listed(`SELECT verb || ' ' || kind || ' ' || object_id || ' @' || fence || ' ' || trigger || ': ' || reason || CASE WHEN rejected_reason = '' THEN '' ELSE ' — held: ' || rejected_reason END
		FROM plan_actions`)
}

func (s *scene) jobs() string {
	return s.listed(`SELECT kind || ' ' || (args - 'reason' - 'ask')::text FROM river.river_job`)
}

func (s *scene) remains() string {
	return s.listed(`SELECT kind || ' ' || object_id || ' +' || extract(epoch FROM due_at - now())::int || 's: ' || reason FROM reconcile_due`)
}

func (s *scene) drifts() string {
	return s.listed(`SELECT name || ' ' || field || ' ' || status || ': ' || observed || ', not ' || desired || '; ' || policy || ' by ' || owner
		|| coalesce(' in ' || round(extract(epoch FROM deadline_at - now())) || 's', '')
		|| CASE WHEN cost_minor > 0 THEN ' costs ' || cost_minor || ' ' || currency ELSE '' END
		|| CASE WHEN status = 'ignored' THEN ' ignored by ' || ignored_by || ' for ' || round(extract(epoch FROM ignored_until - now())) || 's' ELSE '' END FROM drift`)
}

// rows returns the events and validates them against their contract.
func (s *scene) rows() string {
	s.t.Helper()
	rows, err := s.db.Query(s.t.Context(), `SELECT subject, payload FROM outbox_events`)
	if err != nil {
		s.t.Fatal(err)
	}
	var subject string
	var payload []byte
	if _, err := pgx.ForEachRow(rows, []any{&subject, &payload}, func() error { return asyncapi.Validate(subject, payload) }); err != nil {
		s.t.Error(err)
	}
	return s.listed(`SELECT subject || ' ' || (payload->>'name') || ' ' || (payload->>'field') FROM outbox_events`)
}

func (s *scene) pass() int {
	s.t.Helper()
	n, err := s.Pass(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// fixed is id for goroutines: the name is known already.
func (*scene) fixed(name string) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)) }
