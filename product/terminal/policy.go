package terminal

import (
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// LimitsFrom returns a function that reads the limits of a project's sessions.
func LimitsFrom(client *policies.Client) func(ids.Tenant, ids.Project) Limits {
	return func(tenant ids.Tenant, project ids.Project) Limits {
		v := client.Latest().For(identity.TenantScopes(tenant, project)...)
		return Limits{
			TokenLife:     time.Duration(v.Int(policies.TerminalTokenTTLSeconds)) * time.Second,
			Idle:          time.Duration(v.Int(policies.TerminalIdleMinutes)) * time.Minute,
			PerAllocation: int(v.Int(policies.TerminalMaxSessionsPerAllocation)),
			Recording:     Recording(v.String(policies.TerminalRecording)),
			RecordingMax:  v.Int(policies.TerminalRecordingMaxMiB) << 20,
			Forwarding:    v.Bool(policies.TerminalForwardingEnabled),
		}
	}
}
