package allocation_test

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

// Only exempt roles start work while admission is limited, and nothing starts while it is closed. A queued request
// waits until admission is open again, and expires in its time.
func TestAdmission(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	waits := queued(t, w, 1)
	w.Node(t, "n1", 8)
	request := func(role string) error {
		by := w.Caller
		by.Role = role
		_, err := w.Allocations.Request(t.Context(), allocation.Request{Caller: by, SKU: allocationtest.SKU, GPUs: 1, Queue: true})
		return err
	}
	exempt := []string{"admin"}
	for name, c := range map[string]struct {
		admission policies.Admission
		role      string
		want      errs.Code
	}{
		"closed":           {policies.Admission{Mode: "closed", Exempt: exempt}, "admin", errs.AdmissionClosed},
		"limited, a user":  {policies.Admission{Mode: "admins_only", Exempt: exempt}, "user", errs.AdmissionClosed},
		"limited, program": {policies.Admission{Mode: "admins_only", Exempt: exempt}, "", errs.AdmissionClosed},
		"limited, exempt":  {policies.Admission{Mode: "admins_only", Exempt: exempt}, "admin", ""},
		"open":             {policies.Admission{Mode: "open"}, "user", ""},
	} {
		w.Limits.Admission = c.admission
		if err := request(c.role); errs.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.Limits.Admission = policies.Admission{Mode: "closed", Message: "back at 12:00"}
	if err := request("user"); err == nil || err.Error() != "back at 12:00" {
		t.Errorf("the message is %v", err)
	}
	place(t, w, 0)
	w.Limits.Admission = policies.Admission{}
	place(t, w, 1)
	if read(t, w, waits.ID).Queued() {
		t.Error("it waits although admission is open")
	}

	late := queued(t, w, 8)
	_, err := w.DB.Exec(t.Context(), `UPDATE allocations SET queue_until = $2 WHERE id = $1`, late.ID, time.Now().Add(-time.Minute))
	must(t, err)
	w.Limits.Admission = policies.Admission{Mode: "closed"}
	place(t, w, 0)
	if a := read(t, w, late.ID); a.State != allocation.Failed {
		t.Errorf("it is %s after its time", a.State)
	}
	if _, err := w.Allocations.Release(t.Context(), w.Caller, identity.Key{}, waits.ID, nil); err != nil {
		t.Errorf("a release while admission is closed: %v", err)
	}
}

// An isolation that no driver delivers is rejected, whether the SKU or a policy needs it.
func TestINV64IsolationIsDeliveredOrRejected(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "n1", 8)
	for _, c := range []struct {
		sku, policy string
		want        errs.Code
	}{{"host_user", "host_user", ""}, {"host_user", "slice_vm", errs.IsolationUnavailable}, {"full_reimage", "host_user", errs.IsolationUnavailable}} {
		w.Isolation = c.policy
		_, err := w.DB.Exec(t.Context(), `UPDATE sku_catalog SET spec = spec || jsonb_build_object('isolation', $1::text)`, c.sku)
		must(t, err)
		w.Catalog.Invalidate()
		_, err = w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1})
		if errs.CodeOf(err) != c.want {
			t.Errorf("SKU %s, policy %s: %v", c.sku, c.policy, err)
		}
	}
}
