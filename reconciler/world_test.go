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

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/migrations"
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
			ProvisionDeadline: 15 * time.Minute, ReleaseDeadline: 15 * time.Minute,
			ProvisionAttempts: 3, ReleaseAttempts: 5, AskAgain: 10 * time.Second,
		},
		Enabled: true, SweepEvery: tick, MassReleases: 2,
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

// words is one line of a scenario: a verb, a name, and key=value pairs.
type words map[string]string

func (w words) or(key, otherwise string) string {
	if v, ok := w[key]; ok {
		return v
	}
	return otherwise
}

// line writes the rows of one line:
//
//	declare NAME kind=SKU generation=2 fence=2 node=n1 released deleted
//	carried NAME kind=SKU generation=1 gone
//	node    NAME stale silent partial
//	seen    NAME node=n1 phase=ready fence=1 failures=2 failed=1 message=keys unproven
//	state   NAME active since=1h expires=-1s
//	due     NAME kind=Allocation asked=ensure
//	drift   NAME
func (s *scene) line(text string) {
	s.t.Helper()
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return
	}
	w := words{}
	for _, f := range fields[2:] {
		key, value, _ := strings.Cut(f, "=")
		w[key] = value
	}
	name, id := fields[1], s.id(fields[1])
	switch fields[0] {
	case "declare":
		_, deleted := w["deleted"]
		_, released := w["released"]
		s.exec(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, generation, fence, owner, deleted_at)
			VALUES ($1, $2, $3, jsonb_build_object('node', $4::uuid, 'released', $5::bool, 'gpuUUIDs', '[]'::jsonb), 'hash-' || $6::text, $6::text::bigint, $7::text::bigint, 'api', CASE WHEN $8 THEN now() END)`,
			id, w.or("kind", "Allocation"), name, s.id(w.or("node", "n1")), released, w.or("generation", w.or("fence", "1")), w.or("fence", "1"), deleted)
	case "carried":
		_, gone := w["gone"]
		s.exec(`INSERT INTO observed_objects (uid, kind, generation, spec_hash, gone) VALUES ($1, $2, $3::text::bigint, 'hash-' || $3::text, $4)`, id, w["kind"], w.or("generation", "1"), gone)
	case "node":
		_, stale := w["stale"]
		_, partial := w["partial"]
		_, silent := w["silent"]
		s.exec(`INSERT INTO observed_nodes (node_id, boot, boot_id, sequence, complete, agent, capability, inventory, content_hash, seen_at, stale_at)
			VALUES ($1, 1, 'b', 1, $2, '1', 1, '{}', 'h', now(), now() + CASE WHEN $3 THEN '-1 s' ELSE '1 min' END::interval)`, id, !partial, stale)
		s.exec(`INSERT INTO nodes (id, name, sku, region, onboarding, expected_gpus, lifecycle, reachability) VALUES ($1, $2, 's', 'r', 'manual', 1, 'active', CASE WHEN $3 THEN 'stale' ELSE 'reachable' END)`, id, name, silent)
	case "seen":
		_, unproven := w["unproven"]
		proof := fmt.Sprintf(`{"fence": %s, "leftovers": []}`, w.or("fence", "1"))
		if unproven || w["phase"] != "gone" {
			proof = "null"
		}
		s.exec(`INSERT INTO observed_allocations (allocation_id, node_id, phase, fence, observed_generation, spec_hash, message, proof, failures, failed_fence, seen_at)
			VALUES ($1, $2, $3, $4::text::bigint, 1, 'hash-' || $5::text, $6, nullif($7::jsonb, 'null'), $8::text::int, $9::text::bigint, now())`,
			id, s.id(w.or("node", "n1")), w["phase"], w.or("fence", "1"), w.or("hash", w.or("fence", "1")), w["message"], proof, w.or("failures", "0"), w.or("failed", "0"))
	case "state":
		s.exec(`INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, node_id, price_minor, currency, login, host_uid, status, status_at, active_at, ended_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, 's', 'r', 1, $6, 1, 'EUR', 'u', 200000, $7, now() - $8::text::interval, now(),
				CASE WHEN $7 IN ('released', 'failed') THEN now() END, now() + nullif($9::text, '')::interval)`,
			id, s.id("tenant"), s.id("project"), s.id("user"), name, s.id(w.or("node", "n1")), fields[2], w.or("since", "0 s"), w["expires"])
	case "due":
		s.exec(`INSERT INTO reconcile_due (kind, object_id, due_at, reason) VALUES ($1, $2, now(), 'marked')`, w.or("kind", "Allocation"), id)
	case "asked": // under way since the last plan
		s.exec(`UPDATE reconcile_due SET asked_verb = $2, asked_fence = 1, asked_generation = 1, asked_until = now() + interval '4 s' WHERE object_id = $1`, id, fields[2])
	case "drift":
		s.exec(`INSERT INTO drift (kind, object_id, field) VALUES ('Allocation', $1, 'keys')`, id)
	default:
		s.t.Fatalf("no such line: %s", text)
	}
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
	return s.listed(`SELECT verb || ' ' || kind || ' ' || object_id || ' @' || fence || ' ' || event || ': ' || reason || CASE WHEN held = '' THEN '' ELSE ' — held: ' || held END
		FROM plan_actions`)
}

func (s *scene) jobs() string {
	return s.listed(`SELECT kind || ' ' || (args - 'reason' - 'ask')::text FROM river.river_job`)
}

func (s *scene) remains() string {
	return s.listed(`SELECT kind || ' ' || object_id || ' +' || extract(epoch FROM due_at - now())::int || 's: ' || reason FROM reconcile_due`)
}

func (s *scene) drifts() string {
	return s.listed(`SELECT object_id || ' ' || field || ' ' || status FROM drift`)
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
