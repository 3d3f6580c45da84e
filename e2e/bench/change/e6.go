package change

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	collect "github.com/gpuaas/gpuaas/jobs/evidence"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/storage/blob/files"
)

// The goals of E6 are stated for a change of 500 objects.
const (
	evidenceObjects = 500
	evidenceWithin  = 2 // seconds
	bundles         = 9
	verifications   = 100
)

// Evidence measures the time from the request of the bundle of a change until it is signed, by a worker with PostgreSQL and an object
// store in a folder. Then it compares the verification of its file with the bare signature and digest of the same bytes.
func Evidence(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(evidenceObjects, 5)
	url, err := l.Database(ctx, "e6")
	if err != nil {
		return nil, err
	}
	w, err := newEvidenceWorker(ctx, l, url)
	if err != nil {
		return nil, err
	}
	defer w.close(ctx)
	plan, err := seedChange(ctx, l, url, n)
	if err != nil {
		return nil, err
	}
	var took []float64
	var last evidence.Record
	for i := range bundles {
		began := clock.Clock{}.Now()
		if last, err = w.build(ctx, plan, i); err != nil {
			return nil, err
		}
		took = append(took, clock.Clock{}.Now().Sub(began).Seconds())
	}
	r := lab.Row{ID: "E6", Path: fmt.Sprintf("evidence bundle of a change of %d objects", n), Unit: " s", Ours: lab.Median(took), Peer: evidenceWithin}
	r.Ratio, r.Min, r.Max = r.Ours/evidenceWithin, lab.Quantile(took, 0)/evidenceWithin, lab.Quantile(took, 1)/evidenceWithin
	_, file, err := w.evidence.Open(ctx, last.ID)
	if err != nil {
		return nil, err
	}
	r.Note = fmt.Sprintf("%d bundles of %d bytes", bundles, len(file))
	verified, err := verifyBundle(ctx, l, file, bundle.Keys{*last.KeyID: last.PublicKey})
	return []lab.Row{r.AtMost(1), verified}, err
}

// evidenceWorker builds bundles as a server does.
type evidenceWorker struct {
	evidence *evidence.Service
	client   *river.Client[pgx.Tx]
	close    func(context.Context)
}

func newEvidenceWorker(ctx context.Context, l *lab.Lab, url string) (*evidenceWorker, error) {
	pool, err := lab.OpenAs(ctx, url, "work", lab.WorkConns)
	if err != nil {
		return nil, err
	}
	s, err := lab.Services(pool, &hint.Bus{}, l.Logger)
	if err != nil {
		return nil, err
	}
	signer, err := secret.OpenSigner(filepath.Join(l.Dir, "e6", "keys"))
	if err != nil {
		return nil, err
	}
	store, err := files.Open(filepath.Join(l.Dir, "e6", "files"), clock.Clock{})
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema: migrations.RiverSchema, Workers: workers, Logger: l.Logger, FetchCooldown: lab.Poll, FetchPollInterval: 4 * lab.Poll,
		Queues: map[string]river.QueueConfig{evidence.QueueEvidence: {MaxWorkers: 1}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the worker: %w", err)
	}
	s.Queue, s.Evidence.Jobs, s.Evidence.Signer, s.Evidence.Files, s.Evidence.Environment = client, client, signer, store, "bench"
	collect.AddWorkers(workers, collect.Deps{Services: s, Tasks: &nodetask.Store{DB: pool}})
	if err := client.Start(ctx); err != nil {
		return nil, fmt.Errorf("starting the worker: %w", err)
	}
	return &evidenceWorker{evidence: s.Evidence, client: client, close: func(ctx context.Context) {
		_ = client.StopAndCancel(ctx) // it has no work
		_ = store.Close()
		pool.Close()
	}}, nil
}

// build requests the bundle of a plan, and waits until it is signed.
func (w *evidenceWorker) build(ctx context.Context, plan ids.Plan, i int) (evidence.Record, error) {
	cause := fmt.Sprintf("bench/%d", i)
	if err := w.evidence.Add(ctx, []evidence.Cause{{Kind: bundle.Plan, About: "plan", Subject: plan.String(), Cause: cause, By: "bench", ChangedAt: clock.Clock{}.Now()}}); err != nil {
		return evidence.Record{}, err
	}
	if err := w.evidence.EnqueuePending(ctx); err != nil {
		return evidence.Record{}, err
	}
	for ctx.Err() == nil {
		list, err := w.evidence.List(ctx, evidence.Filter{About: plan.String(), Limit: 1})
		switch {
		case err != nil:
			return evidence.Record{}, err
		case list[0].FailureMessage != "":
			return evidence.Record{}, errors.New(list[0].FailureMessage)
		case list[0].Status == evidence.StatusSigned:
			return list[0], nil
		}
		lab.Wait(ctx, lab.Poll)
	}
	return evidence.Record{}, ctx.Err()
}

// seedChange inserts an applied plan of n nodes with its approvals, and for each node an action, a job and an audit row.
func seedChange(ctx context.Context, l *lab.Lab, url string, n int) (ids.Plan, error) {
	plan := ids.New[ids.Plan]()
	steps := make([]map[string]any, n)
	for i := range steps {
		steps[i] = map[string]any{
			"action": "change", "kind": "Node", "name": fmt.Sprintf("gpu-%04d", i), "uid": uuid.NewMD5(uuid.Nil, fmt.Append(nil, i)).String(), "generation": 3,
			"fields": []map[string]any{{"path": "/spec/labels/rack", "from": "r1", "to": "r2"}, {"path": "/spec/agent", "from": "v1", "to": "v2"}},
		}
	}
	document, err := json.Marshal(map[string]any{"steps": steps, "summary": fmt.Sprintf("%d nodes", n), "objects": n})
	if err != nil {
		return plan, fmt.Errorf("encoding the plan: %w", err)
	}
	of := `FROM jsonb_array_elements('` + string(document) + `'::jsonb->'steps') WITH ORDINALITY AS s (step, i)`
	loop := ids.New[ids.Plan]()
	return plan, l.Exec(ctx, url,
		`INSERT INTO plans (id, origin, status, hash, actions, source, commit, author, objects, document, applied_at)
			VALUES ('`+plan.String()+`', 'change', 'applied', 'h', 1, 'fleet', 'c', 'ada@example.org', '{}', '`+string(document)+`', now() - interval '2 minutes')`,
		`INSERT INTO plan_approvals (plan_id, approver, reason) VALUES ('`+plan.String()+`', 'user:grace', 'reviewed'), ('`+plan.String()+`', 'user:alan', 'reviewed')`,
		`INSERT INTO plans (id, hash, actions) VALUES ('`+loop.String()+`', 'h', 1)`,
		`INSERT INTO plan_actions (plan_id, number, kind, object_id, verb, fence, generation, epoch, reason)
			SELECT '`+loop.String()+`', i, 'Node', (step->>'uid')::uuid, 'ensure', 1, 4, 1, 'the spec has changed' `+of,
		`INSERT INTO river.river_job (kind, args, max_attempts, state, finalized_at, queue)
			SELECT 'ensure_node', jsonb_build_object('node', step->>'uid', 'reason', 'the spec has changed'), 5, 'completed', now(), 'provision' `+of,
		`VACUUM ANALYZE plans, plan_actions, river.river_job`,
	)
}

func verifyBundle(ctx context.Context, l *lab.Lab, file []byte, keys bundle.Keys) (lab.Row, error) {
	n := l.Scaled(verifications, 1)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return lab.Row{}, fmt.Errorf("making a key: %w", err)
	}
	signature := ed25519.Sign(private, file)
	ours := func(context.Context) (time.Duration, error) {
		for range n {
			if _, err := bundle.Open(file, keys); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	bare := func(context.Context) (time.Duration, error) {
		for range n {
			if sum := sha256.Sum256(file); sum == [sha256.Size]byte{} || !ed25519.Verify(public, file, signature) {
				return 0, errors.New("the signature is not valid")
			}
		}
		return 0, nil
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, nothing, ours, bare)
	if err != nil {
		return lab.Row{}, err
	}
	return lab.Throughput(p, n, "E6-verify", "verification of the bundle / bare Ed25519 and SHA-256 of its bytes").AtLeast(0.5), nil
}
