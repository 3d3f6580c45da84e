package rest_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// A first request costs no look-up, and a repetition no use-case: that would do all
// its work before it is refused.
func TestRepetitionsAskNoRoom(t *testing.T) {
	t.Parallel()

	b := setup(t)
	create := func(on *bundle, key, body string, code int) {
		t.Helper()
		w := on.do(t, ask{method: "POST", path: allocations, token: tokenOwner, body: body, header: map[string]string{"X-Idempotency-Key": key}})
		if w.Code != code {
			t.Fatalf("%s: %d %s", key, w.Code, w.Body)
		}
	}
	count := func(when string, asked, looked int) {
		t.Helper()
		if b.rooms.asked != asked || b.people.looked != looked {
			t.Errorf("%s: %d creates and %d look-ups, want %d and %d", when, b.rooms.asked, b.people.looked, asked, looked)
		}
	}
	const body = `{"sku":"h100-sxm","name":"otter"}`
	create(b, "k1", body, 201)
	count("first", 1, 0)
	create(b, "k1", body, 201)
	create(b, "k1", `{"sku":"h100-sxm"}`, 422)
	count("repeated", 1, 2)

	b.rooms.fails = errs.New(errs.SKUUnavailable, "no free slot of this SKU")
	create(b, "k2", body, 409)
	create(b, "k2", body, 409)
	b.rooms.fails = nil
	count("refused, which is no answer that stands", 3, 4)

	other := setup(t, func(c *rest.Config) { c.Identity, c.Allocations = b.people, b.rooms })
	create(other, "k1", body, 201)
	count("answered by another process", 4, 5)
	create(other, "k1", body, 201)
	count("and then by this one", 4, 6)
}
