package policies

import (
	"cmp"
	"slices"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Admission states who can start new work.
type Admission struct {
	Mode    string // open, admins_only, closed; empty is open
	Exempt  []string
	Message string
}

// Admission reads it.
func (v View) Admission() Admission {
	return Admission{v.String(PlatformAdmission), v.List(PlatformAdmissionExemptRoles), v.String(PlatformAdmissionMessage)}
}

// IsOpen reports whether everybody can start work.
func (a Admission) IsOpen() bool { return a.Mode == "" || a.Mode == "open" }

// Admit rejects a caller whose role on the platform is not exempt.
func (a Admission) Admit(role string) error {
	if a.IsOpen() || a.Mode == "admins_only" && slices.Contains(a.Exempt, role) {
		return nil
	}
	return errs.New(errs.AdmissionClosed, "%s", cmp.Or(a.Message, "the platform starts no new allocations at present")).
		Try("send the request again later; running allocations are not affected")
}
