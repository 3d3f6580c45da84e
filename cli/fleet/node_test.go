package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
)

// The API lists the oldest hold first. A command that sets one displays its own.
func TestAVerbShowsTheHoldThatItSet(t *testing.T) {
	t.Parallel()

	end := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	n := oapi.Node{Name: "gpu-07", Holds: &[]oapi.Hold{
		{Kind: oapi.HoldKindCordon, Owner: "user:a", Reason: "fans are loud", DeadlineAt: &end},
		{Kind: oapi.HoldKindCordon, Owner: "user:b", Reason: "coolant"},
		{Kind: oapi.HoldKindDrain, Owner: "user:b", Reason: "board swap"},
	}}
	swap, coolant := "board swap", "coolant"
	for want, show := range map[string]nodeView{
		"drain of user:b|-|board swap (and 2 more)":                         heldFor(oapi.HoldKindDrain, &swap),
		"cordon of user:b|-|coolant (and 2 more)":                           heldFor(oapi.HoldKindCordon, &coolant),
		"cordon of user:a|2026-11-20T12:00:00Z|fans are loud (and 2 more)":  heldTable,
		"cordon of user:a|2026-11-20T12:00:00Z|fans are loud (and 2 more) ": heldFor(oapi.HoldKindCordon, &swap), // lifted meanwhile
	} {
		if row := show(&output.Console{}, n).Rows[0]; strings.Join(row[5:], "|") != strings.TrimSpace(want) {
			t.Errorf("%q, not %q", row[5:], want)
		}
	}
}
