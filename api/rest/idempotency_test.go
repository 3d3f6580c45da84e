package rest_test

import "testing"

// A first request costs no look-up, and a repetition no use-case: that would do all
// its work before it is rejected.
func TestRepetitionsCostOneRead(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.allocate(t) // which reads what the process has in memory
	request := func(on *fixture, what, key, body string, code, lookUps int, works bool) {
		t.Helper()
		on.database.watch("FROM idempotency_keys")
		w := on.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: body, header: map[string]string{"X-Idempotency-Key": key}})
		if w.Code != code {
			t.Fatalf("%s: %d %s", what, w.Code, w.Body)
		}
		if looked, begun := on.database.counts(); looked != lookUps || (begun > 0) != works {
			t.Errorf("%s: %d look-ups and %d transactions, want %d look-ups", what, looked, begun, lookUps)
		}
	}
	const body = `{"sku":"h100-sxm","name":"otter"}`
	request(b, "first", "k1", body, 201, 0, true)
	request(b, "repeated", "k1", body, 201, 1, false)
	request(b, "another body", "k1", `{"sku":"h100-sxm"}`, 422, 1, false)

	// An error is no stored response.
	const never = `{"sku":"h100-sxm","region":"nowhere"}`
	for range 2 {
		w := b.do(t, call{method: "POST", path: allocations, token: tokenOwner, body: never, header: map[string]string{"X-Idempotency-Key": "k2"}})
		if w.Code != 409 || w.Header().Get("Idempotency-Replayed") != "" {
			t.Errorf("rejected: %d %s", w.Code, w.Body)
		}
	}

	other := setupOn(t, b.db)
	request(other, "answered by another process", "k1", body, 201, 1, true)
	request(other, "and then by this one", "k1", body, 201, 1, false)
}
