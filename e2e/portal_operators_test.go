//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaas/dev/forge"
)

// TestPortalOfOperatorsInABrowser is the round of an operator through the fleet: a node is cordoned with a reason and
// uncordoned. Each screen has no violation of axe, and no page one of its policy.
func TestPortalOfOperatorsInABrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := newInstallation(t)
	h.start()
	server, _ := h.addresses()
	node := "gpu-t4-01"
	b.open(server + "/portal/fleet")
	b.click(`button[value="operator@dev.localhost"]`)
	b.shows("/portal/fleet", node)
	b.accessible("fleet")

	b.open(server + "/portal/fleet/" + node)
	b.shows("", "Maintenance")
	b.accessible("node")
	b.click(`button[aria-label="Cordon ` + node + `"]`)
	b.types(`[role="dialog"] input[maxlength="512"]`, "new fans")
	b.accessible("cordon")
	b.script(`document.querySelector("[role=dialog] button[type=submit]").click()`, nil)
	b.shows("", node+" is cordoned.")
	b.shows("", "new fans")
	b.click(`button[aria-label="Uncordon ` + node + `"]`)
	b.click(`[role="dialog"] button[type="submit"]`)
	b.shows("", "Your cordons and drains of "+node+" are removed.")

	for path, shown := range map[string]string{"drift": "List of drift", "changes": "Last revisions", "ops": "Plans that wait for a decision"} {
		b.open(server + "/portal/" + path)
		b.shows("/portal/"+path, shown)
		b.accessible(path)
	}
	healInABrowser(t, b, h, server)
}

// healInABrowser removes a GPU outside of the control plane. Its drift appears without a reload, and the object is healed.
func healInABrowser(t *testing.T, b *browser, h *installation, server string) {
	t.Helper()
	node := "gpu-h100-01"
	b.open(server + "/portal/drift")
	b.find(`[data-stream="live"]`)
	h.dev(t, "drift", node, "--way", "gpu")
	b.reasons("Heal "+node, "the card is back", "")
	b.shows("", node+" is being healed.")
	if n := queryOne[int](t, h, `SELECT count(*) FROM audit_logs WHERE action = 'desired.reconcile'`); n != 1 {
		t.Errorf("%d audit rows of the reconciliation", n)
	}
}

// reasons makes a change by the keyboard alone: it opens the dialog, enters the reason and the name, where the dialog needs
// one, and confirms it.
func (b *browser) reasons(button, reason, name string) {
	b.t.Helper()
	b.reaches(`button[aria-label="`+button+`"]`, keyEnter)
	b.hasFocus(`[role="dialog"] *`)
	if name != "" {
		b.reaches(`[role="dialog"] input[data-autofocus]`, name)
	}
	b.reaches(`[role="dialog"] input[autocomplete="off"][maxlength]`, reason)
	b.accessible(button)
	b.reaches(`[role="dialog"] button[type="submit"]`, keyEnter)
}

// as ends the session of the browser, and signs in as another user at a page.
func (b *browser) as(user, page string) {
	b.t.Helper()
	b.must("DELETE", "/cookie", nil, nil)
	b.open(page)
	b.click(`button[value="` + user + `"]`)
}

// TestAdministratorInABrowser is the round of an administrator: an operator drains a node, the node of another allocation
// stops to report, and the administrator forces the release. Each screen of the platform has no violation of axe.
func TestAdministratorInABrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	h := newInstallation(t)
	h.start()
	server, _ := h.addresses()
	a := h.create(t, "t4", 4)
	h.becomes(t, a, "active")
	node := queryOne[string](t, h, `SELECT n.name FROM nodes n JOIN allocations a ON a.node_id = n.id WHERE a.id = $1`, a.ID)
	b.open(server + "/portal/fleet/" + node)
	b.click(`button[value="operator@dev.localhost"]`)
	b.shows("", "GPU topology")
	b.reasons("Drain "+node, "board swap", node)
	b.shows("", node+" is draining.")
	until(t, patience, "the node is draining", func() error {
		if s := queryOne[string](t, h, `SELECT lifecycle FROM nodes WHERE name = $1`, node); s != "draining" {
			return errors.New(s)
		}
		return nil
	})
	for path, shown := range map[string]string{
		"admin/allocations": a.Name, "admin/policies": "allocation.max_gpus", "admin/policies/allocation.max_gpus": "product/allocation.LimitsFrom",
		"admin/users": "dev@dev.localhost", "runbooks": "node-silent", "runbooks/node-silent": "Meaning",
	} {
		b.open(server + "/portal/" + path)
		b.shows("/portal/"+path, shown)
		b.accessible(path)
	}

	h.dev(t, "partition", node)
	until(t, patience, "the node is noticed to be silent", func() error {
		if s := queryOne[string](t, h, `SELECT reachability FROM nodes WHERE name = $1`, node); s == "reachable" {
			return errors.New(s)
		}
		return nil
	})
	page := server + "/portal/admin/allocations/" + fmt.Sprint(a.ID)
	b.as("admin@dev.localhost", page)
	b.shows("", "Force the release")
	b.accessible("allocation of another tenant")
	b.reasons("Force the release "+a.Name, "the node is lost", a.Name)
	b.shows("", "The release of "+a.Name+" is forced.")
	if reason := queryOne[string](t, h, `SELECT after->>'release_reason' FROM audit_logs WHERE action = 'allocation.force_release'`); reason != "node_lost" {
		t.Errorf("the reason of the release is %q", reason)
	}
	tenant := queryOne[string](t, h, `SELECT org_id::text FROM allocations WHERE id = $1`, a.ID)
	for path, shown := range map[string]string{
		"admin/tenants": "dev", "admin/tenants/" + tenant: "test_credit", "admin/sessions": "admin", "admin/payments": "There is no dispute.", "admin/audit?action=allocation.": "allocation.force_release",
	} {
		b.open(server + "/portal/" + path)
		b.shows("/portal/"+path, shown)
		b.accessible(path)
	}
	h.dev(t, "heal", node)
}

// TestPlanInABrowser is AT-105: a plan is approved in the browser with the numbers of `gpuaas plan`, and is then applied.
func TestPlanInABrowser(t *testing.T) {
	t.Parallel()
	o := newOffice(t, forge.GitHub)
	o.opensWithFleet()
	// Agents are started for what is declared when up starts.
	o.stop()
	o.open()
	for range 2 {
		a := o.create(t, "t4", 1)
		o.becomes(t, a, "active")
	}
	o.change("skus.yaml", "amountMinor: 35", "amountMinor: 55")
	dearer := o.push("main", "t4: EUR 0.55")
	r := o.became(dearer, "waiting_approval")

	said := o.cli("plan", filepath.Join(o.clone, "fleet"), "--source", "machines", "--profile", "default-operator", "-o", "json")
	var cli struct {
		Change struct {
			Radius struct{ Tenants, Allocations int } `json:"blast_radius"`
			Money  []struct {
				Before   int64 `json:"burn_before_minor"`
				After    int64 `json:"burn_after_minor"`
				Capacity int64 `json:"capacity_after_minor"`
			} `json:"money"`
		} `json:"change"`
	}
	if err := json.Unmarshal([]byte(said.out), &cli); err != nil || len(cli.Change.Money) != 1 || cli.Change.Money[0].After != 110 {
		t.Fatalf("%v, %+v", err, said)
	}
	b := newBrowser(t)
	server, _ := o.addresses()
	b.open(server + "/portal/changes/" + r.Plan)
	b.click(`button[value="operator@dev.localhost"]`)
	for _, minor := range []int64{cli.Change.Money[0].Before, cli.Change.Money[0].After, cli.Change.Money[0].Capacity} {
		b.shows("", fmt.Sprintf("€%d.%02d", minor/100, minor%100))
	}
	var radius string
	b.script(`return [...document.querySelectorAll(".facts dt")].filter((dt) => ["Tenants", "Allocations"].includes(dt.textContent)).map((dt) => parseInt(dt.nextSibling.textContent)).join(" ")`, &radius)
	if want := fmt.Sprint(cli.Change.Radius.Tenants, cli.Change.Radius.Allocations); radius != want {
		t.Errorf("the page reaches %q, and gpuaas plan %q", radius, want)
	}
	b.accessible("plan")
	b.reaches(`button[aria-label="Approve the plan"]`, keyEnter)
	b.hasFocus(`[role="dialog"] *`)
	b.accessible("approval")
	b.reaches(`[role="dialog"] button[type="submit"]`, keyEnter)
	b.shows("", "Your approval is stored.")
	o.became(dearer, "applied")
	b.shows("", "Applied")
}
