package step

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// Mounts show stored objects in homes.
type Mounts interface {
	// PutMounts makes exactly these mounts in the home of an account. It waits for the access keys of the control plane.
	PutMounts(ctx context.Context, name string, uid int, l protocol.Limits, s protocol.Storage) error
	// RemoveMounts ends the programs that use the mounts of an account, then the mounts. It returns the number of files
	// that were not stored. Storage that is away is no error.
	RemoveMounts(ctx context.Context, name string, uid int) (notStored int, err error)
	// PermitStorage lets an account reach its storage at these addresses, and at no others.
	PermitStorage(ctx context.Context, uid int, to []netip.AddrPort) error
}

// Mounted is a mount that was put.
type Mounted struct {
	protocol.Mount

	Endpoint, Bucket string
	CPUWeight        int // of all mounts of the account; 0: the default of the node
	Mounted          bool
	Message          string // why it is not mounted
}

const (
	// mountWithin is for the access keys (25 s) and the start of all units (40 s).
	mountWithin = 90 * time.Second
	// UnmountWithin is for the upload of what is written (35 s), and for units that do not end (25 s). Without storage a
	// release lasts that much longer.
	UnmountWithin = 75 * time.Second
)

// PutStorage mounts the stored objects that the task names.
func PutStorage() Step {
	check, verify := absent(MountDifferences)
	return Step{
		Name: "storage", Within: mountWithin, Code: protocol.StepFailed, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			if o.Storage == nil {
				_, err := h.RemoveMounts(ctx, o.User, o.UID)
				return err
			}
			return h.PutMounts(ctx, o.User, o.UID, o.Limits, *o.Storage)
		},
		Undo: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			_, err := h.RemoveMounts(ctx, o.User, o.UID)
			return err
		},
	}
}

// Unmount ends the mounts before the sessions: the programs of the tenant end, what they have written is uploaded, then
// the mounts end. What could not be uploaded is in the proof, and does not stop the release.
func Unmount() Step {
	notStored := 0
	_, verify := absent(func(s State, o protocol.AllocationParams) (found []string) {
		a, _ := s.account(o.User)
		for _, m := range a.Mounts {
			found = append(found, fmt.Sprintf("storage: %s of %s is still mounted, expected not", m.At, o.User))
		}
		return found
	})
	return Step{
		Name: "unmount", Within: UnmountWithin, Code: protocol.StepFailed, Verify: verify,
		// A mount may exist without its account, so the step always runs. Without mounts it reads two lists.
		Check: func(context.Context, Host, protocol.AllocationParams) (bool, error) { return false, nil },
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) (err error) {
			notStored, err = h.RemoveMounts(ctx, o.User, o.UID)
			return err
		},
		Prove: func(_ context.Context, _ Host, _ protocol.AllocationParams, p *protocol.Proof) error {
			if p.Checks = append(p.Checks, "mounts"); notStored > 0 {
				p.Checks = append(p.Checks, fmt.Sprintf("mounts: %d files were not stored", notStored))
			}
			return nil
		},
	}
}

// MountDifferences lists the differences of the mounts from the task, in the form of Differences. They are not part of
// those: an allocation without its storage still has its GPUs, so it is not broken.
func MountDifferences(s State, o protocol.AllocationParams) (found []string) {
	a, ok := s.account(o.User)
	if !ok {
		return nil // the step of the account reports it
	}
	for _, r := range MountReports(s, o) {
		if !r.Mounted {
			found = append(found, fmt.Sprintf("storage: %s of %s is not mounted (%s), expected so", r.At, o.User, r.Message))
		}
	}
	for _, m := range a.Mounts {
		if o.Storage == nil || !slices.Contains(o.Storage.Mounts, m.Mount) {
			found = append(found, fmt.Sprintf("storage: %s of %s is mounted, expected not", m.At, o.User))
		}
		const fair = 100 // of systemd
		if have, want := cmp.Or(m.CPUWeight, fair), cmp.Or(o.Limits.CPUWeight, fair); have != want {
			found = append(found, fmt.Sprintf("storage: the CPU weight of %s of %s is %d, expected %d", m.At, o.User, have, want))
		}
	}
	return found
}

// MountReports returns the state of each mount of the task.
func MountReports(s State, o protocol.AllocationParams) (reports []protocol.MountReport) {
	if o.Storage == nil {
		return nil
	}
	a, _ := s.account(o.User)
	for _, want := range o.Storage.Mounts {
		r := protocol.MountReport{At: want.At, Message: "it is not mounted"}
		for _, m := range a.Mounts {
			if m.Mount == want && m.Endpoint == o.Storage.Endpoint && m.Bucket == o.Storage.Bucket {
				r.Mounted, r.Message = m.Mounted, m.Message
			}
		}
		reports = append(reports, r)
	}
	return reports
}
