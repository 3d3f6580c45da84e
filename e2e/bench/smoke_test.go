//go:build e2e

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// optional are the rows whose peer is a program or a module that may not be available.
var optional = map[string]bool{"C2": true, "B4": true, "B5": true}

// TestEveryGoalIsMeasured runs the whole bench at its smallest size, so that a broken measurement
// fails in CI. The measured values have no meaning at that size.
func TestEveryGoalIsMeasured(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "bench.json")
	var table strings.Builder
	err := run(t.Context(), lab.Options{Out: out, Scale: 0.001, Idle: 2 * time.Second, Smoke: true, Table: &table, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var rows []lab.Row
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ID)
		if r.Skipped != "" && !optional[r.ID] {
			t.Errorf("%s was skipped: %s", r.ID, r.Skipped)
		}
	}
	want := []string{"A1", "A1-single", "A1-envelope", "A2", "A2-allocs", "A2-time", "A3", "A3-effects", "R1", "R2", "R2-cpu", "A4", "R5", "R5-p99", "F1", "F1-bare", "F2", "F2-resumed", "F2-gain", "F3", "F3-rows", "F4", "F5", "F6", "F6-empty", "O1", "O3", "O3-p99", "O4", "O4-dead", "O2", "O2-64", "O5", "O6", "O6-peak", "O6-slow", "T1", "T1-stock", "T1-memory", "T1-relay", "T2", "T2-p99", "T2-flood", "T2-flood-p99", "T3", "T3-cut", "T3-rss", "T4", "T5", "T5-p99", "T6-hint", "T6", "T7", "T7-requests", "T7-sql", "L1", "L2", "L3", "L3-slope", "L4", "L4-hot", "L5", "L6", "B6", "C1", "C1-rss", "C2", "C3", "C3-10k", "C3-ratio", "C4", "C4-reads", "C5", "E6", "E6-verify", "U1", "U2", "U3", "U3-rss", "W1", "W1-styles", "W1-part", "W1-terminal", "W2", "W2-warm", "W3", "W3-rows", "W4", "W5-overview", "W5-offers", "W5-allocations", "W5-billing", "W5-usage", "W5-access", "W5-statements", "W6", "W6-p99", "W7", "B1", "B2", "B3", "B3-rename", "B4", "B4-read", "B4-rss", "B5", "B7", "B7-stat", "B8", "N1", "N1-allocs", "N2", "N2-slow", "N3", "N3-sql"}
	if !slices.Contains(ids, "B4-read") { // B4 was skipped, and with it its other rows
		want = slices.DeleteFunc(want, func(id string) bool { return strings.HasPrefix(id, "B4-") })
	}
	if !slices.Equal(ids, want) {
		t.Errorf("measured %v, want %v", ids, want)
	}
	if lines := strings.Count(table.String(), "\n| "); lines != len(want)+1 {
		t.Errorf("the table has %d lines:\n%s", lines, &table)
	}
}
