package terminal

import (
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Recording decides which sessions are recorded.
type Recording string

// RecordTerminals records terminals while that is possible. RecordAlways permits no session without a recording.
const (
	RecordTerminals Recording = "browser"
	RecordAlways    Recording = "required"
)

// RejectUnrecorded rejects SSH of the client, which the server cannot read, in a project that permits recorded sessions only.
// It covers SSH connections, certificates, direct login and forwarding.
func (s *Service) RejectUnrecorded(tenant ids.Tenant, project ids.Project) error {
	if s.Limits(tenant, project).Recording != RecordAlways {
		return nil
	}
	return errs.New(errs.PolicyDenied, "the project permits recorded sessions only (terminal.recording), and SSH connections cannot be recorded").
		Try("use gpuaas terminal, or the terminal of the portal")
}
