package event_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/platform/event"
)

// INV-63: a restored database has recorded fewer messages than a stream contains.
func TestINV63AStreamIsAheadOfARestoredDatabase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r, stop := b.relay(t)
	b.emit(t, 1, 3)
	for recorded := 0; recorded < 3; time.Sleep(10 * time.Millisecond) {
		if err := b.db.QueryRow(t.Context(), `SELECT coalesce(max(acked), 0) FROM outbox_position WHERE stream = 'PROVISIONING'`).Scan(&recorded); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if ahead, err := r.Ahead(t.Context()); err != nil || len(ahead) != 0 {
		t.Errorf("before a restore: %+v, %v", ahead, err)
	}
	if _, err := b.db.Exec(t.Context(), `UPDATE outbox_position SET acked = acked - 2 WHERE stream = 'PROVISIONING'`); err != nil {
		t.Fatal(err)
	}
	ahead, err := r.Ahead(t.Context())
	if want := []event.StreamEnd{{Stream: event.StreamProvisioning, Last: 3, Recorded: 1}}; err != nil || !slices.Equal(ahead, want) {
		t.Errorf("%+v, %v", ahead, err)
	}
}
