package matrix_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// The source that declarations come from, and a key that is set.
const (
	source = "fleet"
	key    = "billing.window_seconds"

	hookSecret = "a secret that only the forge knows"
)

// declare is where declarations are kept, with something of each kind. A forge
// speaks for the source; what it signs with nobody here knows.
func (w *world) declare() {
	secret := filepath.Join(w.state, "hook.secret")
	if err := os.WriteFile(secret, []byte(hookSecret), 0o600); err != nil {
		w.Fatal(err)
	}
	settings := `{"forge": {"kind": "gitea", "url": "https://git.example", "project": "acme/fleet", "webhookSecretRef": "file:` + secret + `"}}`
	for name, with := range map[string]string{source: settings, "other": "{}"} {
		w.sql(`INSERT INTO git_sources (name, repository, ref, dirs, declared_by, settings) VALUES ($1, 'file:///nowhere', 'main', '{.}', 'environment', $2)`, name, with)
	}
	for range 2 {
		w.sql(`INSERT INTO desired_revisions (source, repository, commit, status, objects) VALUES ($1, 'file:///nowhere', 'abc', 'applied', 1)`, source)
		w.drift()
	}
	w.sql(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES ($1, 'SKU', $2, '{}', 'x', 'api')`, id(), sku)
	w.a.standing["DriftID"] = w.drift()
	w.b.standing["DriftID"] = w.a.standing["DriftID"]
}

// platforms are the objects with an id that belong to no tenant.
var platforms = map[string]bool{"PlanID": true, "DriftID": true}

func (w *world) drift() string {
	made := id()
	w.sql(`INSERT INTO drift (id, kind, object_id, name, field) VALUES ($1, 'Node', $2, $3, 'gpus')`, made, id(), w.unique("drifting"))
	return made.String()
}

// object is a declared node, of a name that no other cell has used.
func (w *world) object() string {
	name := w.unique("node")
	w.sql(`INSERT INTO desired_objects (uid, kind, name, spec, spec_hash, owner) VALUES ($1, 'Node', $2, '{}', 'x', 'api')`, id(), name)
	return name
}

// plan is a proposal of somebody else: its author does not approve it.
func (w *world) plan(by *actor) string {
	author := w.admin
	if by == author {
		author = w.operator
	}
	body, _ := json.Marshal(map[string]any{"files": w.files()})
	got := w.send(request{http.MethodPost, "/api/v1/admin/plans", author.header(), body})
	if got.status != http.StatusCreated {
		w.Fatalf("proposing: %d %s", got.status, got.body)
	}
	return field(got.body, "id")
}

// files declare a SKU that is not there yet.
func (w *world) files() map[string]string {
	return map[string]string{"sku.yaml": `apiVersion: gpuaas/v1alpha1
kind: SKU
metadata: {name: ` + w.unique("sku") + `}
spec: {gpuModel: Tesla T4, memoryGiB: 16, price: {currency: EUR, amountMinor: 35}}
`}
}

// valuesOf are those of fields that a name tells what they mean.
func (w *world) valuesOf(name string) (value any, known bool) {
	switch name {
	case "spec":
		return map[string]any{"sku": sku, "region": region, "gpus": 1}, true
	case "files":
		return w.files(), true
	case "until":
		return time.Now().Add(time.Hour).UTC().Format(time.RFC3339), true
	case "value":
		return 60, true
	}
	return nil, false
}
