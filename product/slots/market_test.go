package slots_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/slots"
)

// The free slots are read while other requests are about to claim the slots they were offered. The read must not offer
// these slots again.
func TestASlotIsGivenToOneRequestAtATime(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	for _, sql := range []string{
		`INSERT INTO nodes (id, name, spec, lifecycle, reachability)
			VALUES (gen_random_uuid(), 'n', '{"sku": "t4", "region": "eu", "gpus": 3}', 'active', 'reachable')`,
		`INSERT INTO gpus (uuid, node_id, index, model, memory_mib, health) SELECT 'GPU-' || i, id, i, 'T4', 15360, 'healthy' FROM nodes, generate_series(1, 3) i`,
		`INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status) SELECT gen_random_uuid(), node_id, uuid, 't4', 'eu', 'clean' FROM gpus`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	s := nodehealth.New(db, nil)
	now := time.Unix(1_800_000_000, 0)
	place := func() (slots.Placement, error) {
		now = now.Add(time.Minute) // whatever was read is too old by now
		return s.Place(t.Context(), slots.Wanted{SKU: "t4", GPUs: 1}, now)
	}
	var given []uuid.UUID
	var last slots.Placement
	for range 3 {
		slots, err := place()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(given, slots.IDs[0]) {
			t.Fatalf("%s was given twice", slots.IDs[0])
		}
		given, last = append(given, slots.IDs[0]), slots
	}
	// When all slots are chosen, one more request waits behind them instead of an error.
	if slots, err := place(); err != nil || !slices.Contains(given, slots.IDs[0]) {
		t.Fatalf("all are requested: got %v, %v", slots, err)
	}
	if _, err := s.Place(t.Context(), slots.Wanted{SKU: "t4", GPUs: 4}, now); errs.CodeOf(err) != errs.SKUUnavailable {
		t.Errorf("4 of 3: %v", err)
	}
	s.Finished(last)
	if again, err := place(); err != nil || again.IDs[0] != last.IDs[0] {
		t.Errorf("a request without an effect blocks its slot: got %v, %v", again, err)
	}
}

// A slot that two operators have freed belongs to its next tenant: a further inspection of the same slot does not end that
// claim.
func TestALateInspectionEndsNoClaim(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO nodes (id, name, spec, lifecycle, reachability) VALUES (gen_random_uuid(), 'n', '{"sku": "t4", "region": "eu", "gpus": 1}', 'active', 'reachable')`)
	exec(`INSERT INTO gpus (uuid, node_id, index, model, memory_mib, health) SELECT 'GPU-1', id, 1, 'T4', 15360, 'healthy' FROM nodes`)
	exec(`INSERT INTO slots (id, node_id, gpu_uuid, sku, region, status) SELECT '00000000-0000-7000-8000-000000000001', node_id, uuid, 't4', 'eu', 'quarantined' FROM gpus`)
	inspect := func() (status string) {
		t.Helper()
		b := &pgx.Batch{}
		slots.QueueInspected(b, ids.Slot{UUID: uuid.MustParse("00000000-0000-7000-8000-000000000001")})
		if err := db.SendBatch(t.Context(), b).Close(); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRow(t.Context(), `SELECT status FROM slots`).Scan(&status); err != nil {
			t.Fatal(err)
		}
		return status
	}
	if status := inspect(); status != "clean" {
		t.Errorf("after an inspection: %s", status)
	}
	exec(`UPDATE slots SET status = 'claimed'`)
	if status := inspect(); status != "claimed" {
		t.Errorf("after one that came late: %s", status)
	}
}
