//go:build e2e

package e2e

import (
	"fmt"
	"testing"
)

// plan is a plan as the API returns it.
type plan struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Hash   string `json:"hash"`
}

// appliesOnePlan has an image declared through the API, and repeats each request
// until it is decided: after a crash before or after the commit there is one plan,
// one object of the first generation, and one audit row of each of the two.
func (h *installation) appliesOnePlan(t testing.TB) {
	t.Helper()
	h.names++
	name := fmt.Sprintf("image-%d", h.names)
	file := fmt.Sprintf("apiVersion: gpuaas/v1alpha1\nkind: OSImage\nmetadata: {name: %s}\nspec: {displayName: %s, digest: \"sha256:%064d\"}\n", name, name, h.names)
	ask := func(path, key string, body any, want int) (p plan) {
		until(t, patience, path, func() error {
			h.revive()
			status, err := h.callAs("default-admin", "POST", path, key+name, body, &p)
			if err == nil && status != want {
				err = fmt.Errorf("%d instead of %d", status, want)
			}
			return err
		})
		return p
	}
	kept := ask("/api/v1/admin/plans", "propose-", map[string]any{"files": map[string]string{"image.yaml": file}}, 201)
	if applied := ask("/api/v1/admin/plans/"+kept.ID+"/apply", "apply-", map[string]any{"hash": kept.Hash}, 200); applied.ID != kept.ID || applied.Status != "applied" {
		t.Errorf("INV-06 %+v was applied as %+v", kept, applied)
	}
	db, err := h.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	var plans, objects, proposed, applied int
	must(t, db.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM plans WHERE origin = 'change' AND hash = $2),
		(SELECT count(*) FROM desired_objects WHERE kind = 'OSImage' AND name = $1 AND owner = 'api' AND generation = 1),
		(SELECT count(*) FROM audit_logs WHERE action = 'plan.propose' AND target_urn LIKE '%' || $3),
		(SELECT count(*) FROM audit_logs WHERE action = 'plan.apply' AND target_urn LIKE '%' || $3)`, name, kept.Hash, kept.ID).Scan(&plans, &objects, &proposed, &applied))
	if plans != 1 || objects != 1 || proposed != 1 || applied != 1 {
		t.Errorf("INV-05 %d plans, %d objects, %d and %d audit rows", plans, objects, proposed, applied)
	}
}
