package jobs_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/money"
	"github.com/gpuaas/gpuaas/platform/evidence"
	format "github.com/gpuaas/gpuaas/platform/evidence/bundle"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/storage/blob/files"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

func fileStore(t *testing.T) *files.Store {
	t.Helper()
	store, err := files.Open(t.TempDir(), clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// requestEvidence requests a bundle of an allocation without a job that is worked by itself.
func (b *bundle) requestEvidence(a allocation.Allocation) evidence.Record {
	b.t.Helper()
	r, err := b.deps.Evidence.Request(b.t.Context(), identity.Change[evidence.Record]{Caller: b.Caller}, a.Tenant, a.ID, a.URN(ids.DefaultNaming))
	must(b.t, err)
	return r
}

// signed waits for the bundle of a request, and verifies its file.
func (b *bundle) signed(id uuid.UUID) (evidence.Record, []byte, format.Bundle) {
	b.t.Helper()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		r, file, err := b.deps.Evidence.Open(b.t.Context(), id)
		must(b.t, err)
		if r.Status != evidence.StatusSigned {
			continue
		}
		opened, err := format.Open(file, format.Keys{*r.KeyID: r.PublicKey})
		must(b.t, err)
		return r, file, opened
	}
	b.t.Fatalf("the bundle %s was not signed", id)
	return evidence.Record{}, nil, format.Bundle{}
}

// The life of an allocation, from its request to its proof, is in its bundle.
func TestEvidenceOfAnAllocation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Request(t, 1)
	b.done(b.ensure(a))
	b.reports(b.node, b.is(a, protocol.Ready))
	b.done(record(b, a, plan.NodeReady))
	b.exec(`SET session_replication_role = replica; UPDATE usage_records SET start_s = start_s - 3600; RESET session_replication_role`)
	_, err := b.Allocations.Release(t.Context(), b.Caller, identity.Key{}, a.ID, nil)
	must(t, err)
	a, err = b.Allocations.Get(t.Context(), b.Caller, a.ID)
	must(t, err)
	b.done(b.release(a))
	b.reports(b.node, b.is(a, protocol.Gone))
	b.done(record(b, a, plan.CleanupProved))
	b.done(money.Accrue{})
	b.done(jobs.SealAudit{})
	// A row that the tenant must not read.
	b.exec(`INSERT INTO audit_logs (id, actor, action, target_urn) VALUES (gen_random_uuid(), 'system:operator', 'fraud.examine', $1)`, a.URN(ids.DefaultNaming))

	r, file, opened := b.signed(b.requestEvidence(a).ID)
	if opened.Predicate.Environment != "test" || opened.Predicate.Number != 1 || opened.Predicate.RequestedBy != b.Caller.Actor() || *r.SHA256 != opened.SHA256 || int(*r.Size) != len(file) {
		t.Errorf("%+v", opened.Predicate)
	}
	for part, want := range map[string][]string{
		"requested": {`"record":"allocation"`, `"user_id":"` + b.Caller.User.String(), `"sku":"` + a.SKU},
		"approved":  nil,
		"executed":  {`"record":"job"`, `"kind":"ensure_allocation"`, `"record":"task"`, `"type":"allocation.provision_user"`, `"type":"allocation.revoke_user"`},
		"observed":  {`"record":"transition"`, `"trigger":"node_ready"`, `"record":"report"`, `"record":"proof"`, `"checks":["no_account"]`},
		"charged":   {`"record":"interval"`, `"opened_by":"observed_ready"`, `"record":"total"`, `"record":"entry"`, `"kind":"usage"`},
		"audited":   {`"record":"audit"`, `"action":"allocation.create"`, `"action":"allocation.release"`, `"record":"audit_seal"`},
	} {
		text := string(opened.Predicate.Records(part))
		for _, one := range want {
			if !strings.Contains(text, one) {
				t.Errorf("the part %s lacks %s: %.2000s", part, one, text)
			}
		}
		if want == nil && text != "[]" {
			t.Errorf("the part %s has %s", part, text)
		}
	}
	if strings.Contains(string(opened.Predicate.Records("audited")), "fraud.examine") {
		t.Error("the bundle of a tenant has an audit row of the platform")
	}
	if n := b.count(`SELECT count(*) FROM audit_logs WHERE action IN ('evidence.create', 'evidence.sign')`); n != 2 {
		t.Errorf("%d audit rows", n)
	}
}

// What the loop has planned is in the bundle of its allocation.
func TestEvidenceHasThePlans(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Request(t, 1)
	made := uuid.Must(uuid.NewV7())
	b.exec(`INSERT INTO plans (id, hash, actions) VALUES ($1, 'h', 1)`, made)
	b.exec(`INSERT INTO plan_actions (plan_id, number, kind, object_id, verb, fence, generation, epoch, reason) VALUES ($1, 1, 'Allocation', $2, 'ensure', 1, 1, 1, 'the node does not report it')`, made, a.ID)
	_, _, opened := b.signed(b.requestEvidence(a).ID)
	if text := string(opened.Predicate.Records("planned")); !strings.Contains(text, `"verb":"ensure"`) || !strings.Contains(text, "the node does not report it") || !strings.Contains(text, made.String()) {
		t.Error(text)
	}
	if text := string(opened.Predicate.Records("validated")); !strings.Contains(text, `"record":"object"`) || !strings.Contains(text, b.Declared(t, a.ID).SpecHash) {
		t.Error(text)
	}
}

// Two bundles follow one another, a job that is worked twice builds one, and many workers at once build one chain.
func TestEvidenceIsOneChain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Active(t, 1)
	const n = 8
	var requests [n]evidence.Record
	var wait sync.WaitGroup
	for i := range requests {
		wait.Go(func() {
			r, err := b.deps.Evidence.Request(t.Context(), identity.Change[evidence.Record]{Caller: b.Caller}, a.Tenant, a.ID, a.URN(ids.DefaultNaming))
			if err != nil {
				t.Error(err)
			}
			requests[i] = r
		})
	}
	wait.Wait()
	var all []format.Bundle
	head := ""
	for _, r := range requests {
		signed, _, opened := b.signed(r.ID)
		all = append(all, opened)
		if *signed.Number == n {
			head = *signed.SHA256
		}
	}
	if gaps, fault := format.Chain(all, head); fault != nil || len(gaps) > 0 {
		t.Error(gaps, fault)
	}
	before := b.count(`SELECT count(*) FROM audit_logs`)
	if job := b.work(evidence.BuildEvidence{Bundle: requests[0].ID}); job.State != rivertype.JobStateCompleted {
		t.Errorf("%s %+v", job.State, job.Errors)
	}
	if after := b.count(`SELECT count(*) FROM audit_logs`); after != before || b.count(`SELECT count(*) FROM evidence_bundles`) != n {
		t.Error("a bundle was built twice")
	}
	if job := b.work(evidence.BuildEvidence{Bundle: uuid.New()}); job.State != rivertype.JobStateCancelled {
		t.Errorf("of a bundle that does not exist: %s", job.State)
	}
}

// brokenStore stores nothing while it is away.
type brokenStore struct {
	evidence.Files

	away atomic.Bool
}

func (s *brokenStore) Put(ctx context.Context, id uuid.UUID, r io.Reader, size int64) (int64, error) {
	if s.away.Load() {
		return 0, errors.New("the disk is away")
	}
	return s.Files.Put(ctx, id, r, size)
}

// A store that is away leaves the bundle pending, and a later attempt signs it with the next number.
func TestEvidenceWaitsForTheObjectStore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := &brokenStore{Files: b.deps.Evidence.Files}
	store.away.Store(true)
	b.deps.Evidence.Files = store
	a := b.Active(t, 1)
	made := b.requestEvidence(a)
	b.until(`SELECT count(*) FROM river.river_job WHERE kind = 'build_evidence' AND state = 'scheduled'`)
	if r, file, err := b.deps.Evidence.Open(t.Context(), made.ID); err != nil || r.Status != evidence.StatusPending || r.Attempts != 0 || r.FailureCode != "unavailable" || file != nil {
		t.Errorf("%+v, %d bytes, %v", r, len(file), err)
	}
	store.away.Store(false)
	b.exec(`UPDATE river.river_job SET state = 'available', scheduled_at = now() WHERE kind = 'build_evidence' AND state = 'scheduled'`)
	if r, _, _ := b.signed(made.ID); *r.Number != 1 || r.FailureCode != "" {
		t.Errorf("%+v", r)
	}
	key := b.key(made.ID)
	known, err := b.deps.Evidence.FilesAmong(t.Context(), []uuid.UUID{key, uuid.New()})
	if err != nil || len(known) != 1 || known[0] != key {
		t.Error(known, err)
	}
	// A changed file is not returned.
	b.exec(`UPDATE evidence_bundles SET sha256 = repeat('0', 64) WHERE id = $1`, made.ID)
	if _, file, err := b.deps.Evidence.Open(t.Context(), made.ID); err == nil || file != nil {
		t.Errorf("%d bytes, %v", len(file), err)
	}
	b.exec(`UPDATE evidence_bundles SET object_key = $2 WHERE id = $1`, made.ID, uuid.New())
	if _, _, err := b.deps.Evidence.Open(t.Context(), made.ID); errs.CodeOf(err) != errs.Unavailable {
		t.Errorf("without its file: %v", err)
	}
}

// until waits for rows.
func (b *bundle) until(sql string, args ...any) {
	b.t.Helper()
	for end, n := time.Now().Add(20*time.Second), 0; n == 0; time.Sleep(5 * time.Millisecond) {
		must(b.t, b.DB.QueryRow(b.t.Context(), sql, args...).Scan(&n))
		if time.Now().After(end) {
			b.t.Fatalf("no rows: %s", sql)
		}
	}
}

// What cannot be collected fails with a reason after a bounded number of attempts, and the search leaves it alone.
func TestEvidenceThatCannotBeCollectedFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := &brokenStore{Files: b.deps.Evidence.Files}
	store.away.Store(true)
	b.deps.Evidence.Files = store
	present := b.Active(t, 1).ID.String()
	for name, c := range map[string]struct {
		kind, subject string
		attempts      int
		age           time.Duration
		code          string
	}{
		"an allocation that does not exist":     {"allocation", uuid.NewString(), 0, 0, "not_found"},
		"the last of eight attempts":            {"revision", "x", evidence.MaxAttempts - 1, 0, "internal"},
		"a process that was killed each time":   {"allocation", present, evidence.MaxAttempts, 0, "internal"},
		"an object store that is away for long": {"allocation", present, 0, 8 * 24 * time.Hour, "unavailable"},
	} {
		id := uuid.Must(uuid.NewV7())
		b.exec(`INSERT INTO evidence_bundles (id, kind, about, subject, cause, requested_by, attempts, created_at) VALUES ($1, $2, 'a', $3, $4, 'u', $5, now() - $6::interval)`,
			id, c.kind, c.subject, name, c.attempts, c.age)
		b.done(evidence.FindEvidence{})
		b.until(`SELECT count(*) FROM evidence_bundles WHERE id = $1 AND status = 'failed'`, id)
		r, err := b.deps.Evidence.Read(t.Context(), id)
		if err != nil || r.FailureCode != c.code || r.FailureMessage == "" || strings.Contains(r.FailureMessage, "strconv") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	before := b.count(`SELECT count(*) FROM river.river_job WHERE kind = 'build_evidence'`)
	b.done(evidence.FindEvidence{})
	if after := b.count(`SELECT count(*) FROM river.river_job WHERE kind = 'build_evidence'`); after != before {
		t.Errorf("the search has inserted %d jobs of failed bundles", after-before)
	}
	if n := b.count(`SELECT count(*) FROM audit_logs WHERE action = 'evidence.fail'`); n != 4 {
		t.Errorf("%d audit rows", n)
	}
	if m, err := b.deps.Evidence.Missing(t.Context()); err != nil || m.Failed != 4 || m.Pending != 0 {
		t.Errorf("%+v, %v", m, err)
	}
}

// A failed attempt that is not the last leaves the bundle pending, and is counted.
func TestEvidenceIsAttemptedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := uuid.Must(uuid.NewV7())
	b.exec(`INSERT INTO evidence_bundles (id, kind, about, subject, cause, requested_by) VALUES ($1, 'revision', 'a', 'x', 'c', 'u')`, id)
	b.done(evidence.FindEvidence{})
	b.until(`SELECT count(*) FROM river.river_job WHERE kind = 'build_evidence' AND state = 'retryable'`)
	if r, err := b.deps.Evidence.Read(t.Context(), id); err != nil || r.Status != evidence.StatusPending || r.Attempts == 0 || r.FailureCode != "internal" {
		t.Errorf("%+v, %v", r, err)
	}
}

// Two servers sign at the same time: one of them appends its draft.
func TestTwoDraftsOfOneNumber(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Active(t, 1)
	s := b.deps.Evidence
	var parts []format.Part
	for _, name := range format.Names() {
		parts = append(parts, format.Part{Name: name, Records: []byte(`[]`)})
	}
	draft := func() evidence.Draft {
		id := uuid.Must(uuid.NewV7())
		b.exec(`INSERT INTO evidence_bundles (id, kind, about, subject, cause, requested_by) VALUES ($1, 'allocation', 'a', $2, $3, 'u')`, id, a.ID.String(), id.String())
		r, err := s.Read(t.Context(), id)
		must(t, err)
		d, err := s.Draft(t.Context(), r, parts, time.Now())
		must(t, err)
		return d
	}
	first, second := draft(), draft()
	appended := func(d evidence.Draft) error {
		return pgx.BeginFunc(t.Context(), b.DB, func(tx pgx.Tx) error { return s.Append(t.Context(), tx, d) })
	}
	must(t, appended(first))
	if err := appended(second); !errors.Is(err, evidence.ErrMoved) {
		t.Errorf("the second draft: %v", err)
	}
	must(t, appended(first)) // a commit whose result is unknown is repeated
	must(t, s.Discard(t.Context(), second))
	if n := b.count(`SELECT count(*) FROM evidence_bundles WHERE status = 'signed'`); n != 1 {
		t.Errorf("%d bundles", n)
	}
}

// A caller cannot fill the object store. The requests of others, as of an operator, do not count.
func TestRequestsOfEvidenceHaveALimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Active(t, 1)
	by := func(actor string, n int) {
		b.exec(`INSERT INTO evidence_bundles (id, org_id, kind, about, subject, cause, requested_by, status, failure_code)
			SELECT gen_random_uuid(), $1, 'allocation', 'a', 's', $2 || n, $2, 'failed', 'internal' FROM generate_series(1, $3) AS n`, a.Tenant, actor, n)
	}
	request := func() error {
		_, err := b.deps.Evidence.Request(t.Context(), identity.Change[evidence.Record]{Caller: b.Caller}, a.Tenant, a.ID, "a")
		return err
	}
	by("user:operator", 1000)
	by(b.Caller.Actor(), 999)
	if err := request(); err != nil {
		t.Error(err)
	}
	if err := request(); errs.CodeOf(err) != errs.ConcurrencyLimitReached || b.count(`SELECT count(*) FROM river.river_job WHERE kind = 'build_evidence'`) != 1 {
		t.Error(err)
	}
}

func (b *bundle) key(id uuid.UUID) (key uuid.UUID) {
	b.t.Helper()
	must(b.t, b.DB.QueryRow(b.t.Context(), `SELECT object_key FROM evidence_bundles WHERE id = $1`, id).Scan(&key))
	return key
}

// Applied revisions and plans get one bundle each, a minute later; further searches add none.
func TestEvidenceOfChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	proposal := uuid.Must(uuid.NewV7())
	b.exec(`INSERT INTO plans (id, origin, status, hash, actions, source, commit, author, objects, document, decided_by, decided_at, applied_at)
		VALUES ($1, 'change', 'applied', 'h', 1, 'fleet', 'c1', 'ada@example.org', '{}', $2, 'user:grace', now(), now() - interval '2 minutes')`, proposal,
		`{"steps":[{"action":"create","kind":"SKU","name":"t9","uid":"00000000-0000-0000-0000-000000000000","fields":[]}],"summary":"one node"}`)
	// A created object has no id in its plan.
	created, made := uuid.New(), uuid.Must(uuid.NewV7())
	b.exec(`INSERT INTO desired_objects (uid, kind, scope, name, spec, spec_hash, owner) VALUES ($1, 'SKU', '', 't9', '{}', '', 'api')`, created)
	b.exec(`INSERT INTO plans (id, hash, actions) VALUES ($1, 'h', 1)`, made)
	b.exec(`INSERT INTO plan_actions (plan_id, number, kind, object_id, verb, fence, generation, epoch, reason) VALUES ($1, 1, 'SKU', $2, 'ensure', 1, 1, 1, 'it is new')`, made, created)
	b.exec(`INSERT INTO plan_approvals (plan_id, approver, reason) VALUES ($1, 'user:grace', 'it is correct')`, proposal)
	b.exec(`INSERT INTO desired_revisions (source, repository, commit, tree_hash, status, author, plan_id, updated_at)
		VALUES ('fleet', 'r', 'c1', 't', 'applied', 'ada@example.org', $1, now() - interval '2 minutes'), ('fleet', 'r', 'c2', 't2', 'applied', 'ada@example.org', NULL, now())`, proposal)
	approved := uuid.Must(uuid.NewV7())
	b.exec(`INSERT INTO plans (id, origin, status, hash, actions, source, commit, author, objects, document, decided_by, decided_at, decision)
		VALUES ($1, 'change', 'approved', 'h2', 1, 'fleet', 'c3', 'ada@example.org', '{}', '{"steps":[],"summary":"later"}', 'user:grace', now() - interval '2 minutes', 'it can wait')`, approved)
	for range 2 {
		b.done(evidence.FindEvidence{})
	}
	rows, err := b.DB.Query(t.Context(), `SELECT id FROM evidence_bundles ORDER BY kind, cause = 'plan/' || subject`)
	must(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	must(t, err)
	if len(found) != 3 {
		t.Fatalf("%d bundles, want one of each plan and one of the revision that was applied a minute ago", len(found))
	}
	for i, want := range [][]string{
		{"approved", `"reason":"it can wait"`, "requested", approved.String()},
		{"requested", `"author":"ada@example.org"`, "approved", `"by":"user:grace"`, "planned", `"summary":"one node"`, "executed", "it is new"},
		{"requested", `"commit":"c1"`, "approved", `"reason":"it is correct"`, "validated", `"tree_hash":"t"`},
	} {
		_, _, opened := b.signed(found[i])
		for n := 0; n < len(want); n += 2 {
			if text := string(opened.Predicate.Records(want[n])); !strings.Contains(text, want[n+1]) {
				t.Errorf("%s: the part %s lacks %s: %.500s", opened.Predicate.Kind, want[n], want[n+1], text)
			}
		}
	}
}

// The search continues from the last change that it has found, and finds a plan that was approved long after it was made.
func TestEvidenceOfALateApproval(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(`INSERT INTO evidence_bundles (id, kind, about, subject, cause, requested_by, changed_at, status, failure_code)
		VALUES (gen_random_uuid(), 'plan', 'a', 's', 'c', 'u', now() - interval '30 minutes', 'failed', 'internal')`)
	const applied = `INSERT INTO plans (id, origin, status, hash, actions, source, commit, author, objects, document, applied_at)
		SELECT coalesce($1, gen_random_uuid()), 'change', 'applied', 'h', 1, 'fleet', 'c', 'ada@example.org', '{}', '{"steps":[],"summary":""}', now() - $2::interval FROM generate_series(1, $3::int)`
	b.exec(applied, nil, 3*time.Hour, 250)
	late := uuid.MustParse("01900000-0000-7000-8000-000000000001") // before all others
	b.exec(applied, late, 2*time.Minute, 1)
	b.done(evidence.FindEvidence{})
	if n := b.count(`SELECT count(*) FROM evidence_bundles`); n != 2 || b.count(`SELECT count(*) FROM evidence_bundles WHERE subject = $1`, late.String()) != 1 {
		t.Errorf("%d bundles", n)
	}
}

// A rotation queues its bundle in its own transaction, and the next search builds it.
func TestEvidenceOfARotation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	about := ids.DefaultNaming.Name("", "", "keys", "task_keys").String()
	batch := &pgx.Batch{}
	for range 2 { // the cause is the same
		evidence.Queue(batch, evidence.Cause{Kind: format.KeyRotation, About: about, Subject: "tasks", Cause: "task_keys/begin/1", By: "system:operator"})
	}
	must(t, b.DB.SendBatch(t.Context(), batch).Close())
	b.exec(`INSERT INTO audit_logs (id, actor, action, target_urn) VALUES (gen_random_uuid(), 'system:operator', 'task_keys.rotate_begin', $1)`, about)
	b.publishKeys()
	b.done(evidence.FindEvidence{})
	var made uuid.UUID
	must(t, b.DB.QueryRow(t.Context(), `SELECT id FROM evidence_bundles`).Scan(&made))
	_, _, opened := b.signed(made)
	for part, want := range map[string]string{"requested": `"purpose":"tasks"`, "executed": `"record":"key_set"`, "audited": `"action":"task_keys.rotate_begin"`} {
		if text := string(opened.Predicate.Records(part)); !strings.Contains(text, want) {
			t.Errorf("the part %s lacks %s: %.500s", part, want, text)
		}
	}
}

// publishKeys stores a set of keys for nodes.
func (b *bundle) publishKeys() {
	b.t.Helper()
	signer := b.deps.Evidence.Signer
	other, err := secret.OpenSigner(b.t.TempDir())
	must(b.t, err)
	b.Do(b.t, func(tx pgx.Tx) error {
		return secret.SignKeySet(b.t.Context(), tx, signer, signer.Active(), protocol.KeySet{TaskKeys: signer.Public(), StatementKeys: other.Public()}, time.Now().Truncate(time.Second))
	})
}

// The newest bundle stays, because the next one follows it; older ones end with their days.
func TestOldEvidenceEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.Active(t, 1)
	for range 3 {
		b.signed(b.requestEvidence(a).ID)
	}
	b.exec(`UPDATE evidence_bundles SET created_at = now() - interval '800 days', signed_at = now() - interval '800 days'`)
	if n, err := evidence.DeleteOld(t.Context(), b.DB, 730*24*time.Hour, 100); err != nil || n != 2 {
		t.Errorf("%d deleted, %v", n, err)
	}
	if r, _, opened := b.signed(b.requestEvidence(a).ID); *r.Number != 4 || opened.Predicate.Previous == "" {
		t.Errorf("number %d after %q", *r.Number, opened.Predicate.Previous)
	}
}
