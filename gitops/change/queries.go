package change

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/gitops/preview"
)

const (
	// Two equal requests at the same time get one plan.
	lockChange = `SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'plan', $1::text, $2::text, $3::text), 0))`
	// An applied or rejected plan is history; a new request creates a new plan. A rejected commit
	// stays rejected. The hash covers what would be written, and not the findings.
	findPlan = `
		SELECT id FROM plans
		WHERE origin = 'change' AND source = $1 AND commit = $2 AND hash = $3 AND document->'findings' = $4
			AND status <> 'applied' AND (status <> 'rejected' OR source <> '')
		ORDER BY id DESC LIMIT 1`
	insertPlan = `
		INSERT INTO plans (id, origin, status, hash, actions, source, commit, pull, document, objects, author)
		VALUES ($1, 'change', 'proposed', $2, $3, $4, $5, $6, $7, $8, $9)`
	// The state may have returned to what the plan was made for. The author is the one of the Git
	// commit, not the first requester.
	renewPlan = `
		UPDATE plans SET status = CASE WHEN status = 'stale' THEN 'proposed' ELSE status END, pull = greatest(pull, $2), author = coalesce(nullif($3, ''), author),
			objects = objects || $4::jsonb || jsonb_build_object('people', (SELECT coalesce(jsonb_agg(DISTINCT email), '[]')
				FROM jsonb_array_elements(coalesce(objects->'people', '[]') || coalesce($4::jsonb->'people', '[]')) AS email))
		WHERE id = $1 AND (status = 'stale' OR pull < $2 OR $3 <> '' AND author <> $3 OR NOT objects @> $4::jsonb)`

	addApproval  = `INSERT INTO plan_approvals (plan_id, approver, reason) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING at`
	changeNeeded = `UPDATE plans SET approvals_needed = $2 WHERE id = $1 AND approvals_needed <> $2`

	allPlans = `
		SELECT id, created_at, hash, status, source, commit, pull, document, objects, author, decided_by, decided_at, decision, applied_at, approvals_needed,
			(SELECT coalesce(jsonb_agg(jsonb_build_object('by', approver, 'at', at, 'reason', reason) ORDER BY at, approver), '[]') FROM plan_approvals WHERE plan_id = plans.id)
		FROM plans WHERE origin = 'change'`
	selectPlan  = allPlans + ` AND id = $1`
	lockPlan    = selectPlan + ` FOR UPDATE`
	selectPlans = allPlans + ` AND ($1 = '' OR source = $1) AND ($2 = '' OR status = $2) AND ($3 = '' OR commit = $3) AND id < $4
		AND ($6::timestamptz IS NULL OR coalesce(applied_at, decided_at) >= $6) ORDER BY id DESC LIMIT $5`

	decidePlan = `
		UPDATE plans SET status = $2, decided_by = $3, decided_at = now(), decision = $4
		WHERE id = $1 AND status IN ('proposed', 'approved')
		RETURNING decided_at`
	// A plan that no reviewer can reject any more.
	finishPlan = `UPDATE plans SET status = 'applied', applied_at = now() WHERE id = $1 AND status IN ('proposed', 'approved') RETURNING applied_at`
	agePlan    = `UPDATE plans SET status = 'stale' WHERE id = $1 AND status IN ('proposed', 'approved') AND hash = $2`
)

func scanPlan(row pgx.CollectableRow) (p Stored, err error) {
	var document []byte
	err = row.Scan(&p.ID, &p.CreatedAt, &p.Hash, &p.Status, &p.Source, &p.Commit, &p.Pull, &document, &p.request, &p.Author, &p.DecidedBy, &p.DecidedAt,
		&p.Decision, &p.AppliedAt, &p.ApprovalsNeeded, &p.Approvals)
	if err == nil {
		p.Plan, err = preview.Read(document)
	}
	if err != nil {
		return Stored{}, fmt.Errorf("scanning plan: %w", err)
	}
	return p, nil
}
