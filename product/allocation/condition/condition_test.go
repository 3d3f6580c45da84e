package condition_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/condition"
	"github.com/gpuaas/gpuaas/protocol"
)

// The conditions of each state, in one line: type=status(reason).
func TestConditions(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	node := ids.New[ids.Node]()
	was := func(s allocation.State) allocation.Allocation {
		return allocation.Allocation{State: s, Node: node, ActiveAt: &at, StatusAt: at, Message: "why"}
	}
	mounted := was(allocation.Active)
	mounted.Mounts = []desired.Mount{{At: "data"}}
	for name, c := range map[string]struct {
		a    allocation.Allocation
		seen condition.Observed
		want string
	}{
		"requested":           {allocation.Allocation{State: allocation.Requested, Node: node}, condition.Observed{}, "Ready=False(Progressing) Reconciling=True(Progressing) NodeAssigned=True(Succeeded) Provisioned=False(Progressing) AccessReady=False(Progressing) Metering=False(Progressing)"},
		"queued":              {allocation.Allocation{State: allocation.Requested}, condition.Observed{}, "Ready=False(Queued) NodeAssigned=False(Progressing) Provisioned=False(Progressing) AccessReady=False(Progressing) Metering=False(Progressing)"},
		"a GPU of it failed":  {allocation.Allocation{State: allocation.Active, Node: node, ActiveAt: &at}, condition.Observed{Reported: true, Phase: "ready", Fault: "The GPU failed.", FaultSince: at}, "Ready=True(Succeeded) GPUHealthy=False(HealthCheckFailed) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=True(Succeeded) Metering=True(Succeeded)"},
		"tried again":         {allocation.Allocation{State: allocation.Provisioning, Node: node}, condition.Observed{Reported: true, Failures: 1, Message: "disk full"}, "Ready=False(Progressing) Reconciling=True(ProgressingWithRetry) NodeAssigned=True(Succeeded) Provisioned=False(Progressing) AccessReady=False(Progressing) Metering=False(Progressing)"},
		"active":              {was(allocation.Active), condition.Observed{Reported: true, Phase: "ready"}, "Ready=True(Succeeded) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=True(Succeeded) Metering=True(Succeeded)"},
		"no SSH key":          {was(allocation.Active), condition.Observed{Reported: true, Phase: "ready", NoSSHKey: true}, "Ready=True(Succeeded) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=False(NoSSHKey) Metering=True(Succeeded)"},
		"old agent":           {was(allocation.Active), condition.Observed{Reported: true, Phase: "ready", NoRelay: true, NoSSHKey: true}, "Ready=True(Succeeded) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=False(AgentOutdated) Metering=True(Succeeded)"},
		"an older agent":      {was(allocation.Active), condition.Observed{Reported: true, Phase: "ready", Unrestricted: true}, "Ready=True(Succeeded) AccessRestricted=False(AgentOutdated) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=True(Succeeded) Metering=True(Succeeded)"},
		"mounted":             {mounted, condition.Observed{Reported: true, Phase: "ready", Mounts: []protocol.MountReport{{At: "data", Mounted: true}}}, "Ready=True(Succeeded) StorageMounted=True(Succeeded) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=True(Succeeded) Metering=True(Succeeded)"},
		"not mounted":         {mounted, condition.Observed{Reported: true, Phase: "ready", Mounts: []protocol.MountReport{{At: "data", Message: "away"}}}, "Ready=True(Succeeded) StorageMounted=False(MountFailed) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=True(Succeeded) Metering=True(Succeeded)"},
		"another mount":       {mounted, condition.Observed{Reported: true, Phase: "ready", Mounts: []protocol.MountReport{{At: "other", Mounted: true}}}, "Ready=True(Succeeded) StorageMounted=False(Progressing) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=True(Succeeded) Metering=True(Succeeded)"},
		"mounts not reported": {mounted, condition.Observed{}, "Ready=Unknown(StaleReport) StorageMounted=Unknown(StaleReport) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=False(Suspended) Metering=True(Succeeded)"},
		"broken":              {was(allocation.Active), condition.Observed{Reported: true, Phase: "broken", Message: "keys"}, "Ready=False(Progressing) Drifted=True(Progressing) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=False(Suspended) Metering=True(Succeeded)"},
		"not spoken":          {was(allocation.Active), condition.Observed{}, "Ready=Unknown(StaleReport) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=False(Suspended) Metering=True(Succeeded)"},
		"releasing":           {was(allocation.Releasing), condition.Observed{Reported: true}, "Ready=False(Progressing) Reconciling=True(Progressing) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=False(Suspended) Metering=False(Suspended)"},
		"released":            {was(allocation.Released), condition.Observed{}, "Ready=True(Succeeded) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=False(Suspended) Metering=False(Suspended)"},
		"failed":              {allocation.Allocation{State: allocation.Failed, Node: node, Message: "why"}, condition.Observed{}, "Ready=False(Failed) Stalled=True(Failed) NodeAssigned=True(Succeeded) Provisioned=False(Suspended) AccessReady=False(Suspended) Metering=False(Suspended)"},
		"not released":        {was(allocation.ReleaseFailed), condition.Observed{}, "Ready=False(Failed) Stalled=True(Failed) NodeAssigned=True(Succeeded) Provisioned=True(Succeeded) AccessReady=False(Suspended) Metering=False(Suspended)"},
	} {
		c.seen.Generation = 7
		var got []string
		for _, k := range condition.Of(c.a, c.seen) {
			got = append(got, fmt.Sprintf("%s=%s(%s)", k.Type, k.Status, k.Reason))
			if k.ObservedGeneration != 7 {
				t.Errorf("%s: %s observed generation %d", name, k.Type, k.ObservedGeneration)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, text, c.want)
		}
	}
}
