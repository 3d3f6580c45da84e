package cli

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/change"
	"github.com/gpuaas/gpuaas/cli/inspect"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// What is healed has no deadline any more: it would seem overdue for ever.
func TestOnlyOpenDriftIsDue(t *testing.T) {
	t.Parallel()
	passed := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	for status, want := range map[oapi.DriftStatus]bool{oapi.DriftStatusOpen: true, oapi.DriftStatusHealed: false, oapi.DriftStatusIgnored: false} {
		shown := inspect.DriftTable(&output.Console{Clock: clock.Clock{}}, oapi.Drift{Status: status, DeadlineAt: &passed})
		if got := shown.Rows[0][8]; (got != "-") != want {
			t.Errorf("%s drift is due %s", status, got)
		}
	}
}

// A revision that a suspended source delays is marked in the list.
func TestARevisionSaysWhyItWaits(t *testing.T) {
	t.Parallel()
	waits := []oapi.ApprovalReason{{Reason: "suspended", Message: "the source is suspended"}}
	for status, want := range map[oapi.RevisionStatus]string{
		oapi.RevisionStatusPlanned: "the source is suspended", oapi.RevisionStatusWaitingApproval: "the source is suspended", oapi.RevisionStatusApplied: "-",
	} {
		if got := output.CellText(change.VerdictOf(oapi.Revision{Status: status, ApprovalReasons: &waits})); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}
