package step

import (
	"context"
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaas/protocol"
)

// Scan is the last step of a release. It searches the host OS for everything of the tenant and
// shares no code with the steps that should have removed it.
func Scan() Step {
	return Step{
		Name: "scan", Within: thorough, Code: protocol.VerifyFailed,
		Check: func(ctx context.Context, h Host, o protocol.AllocationParams) (bool, error) {
			return true, clean(observe(ctx, h, o, func(s State) []string { return Remaining(s, o) }))
		},
		Prove: func(ctx context.Context, h Host, o protocol.AllocationParams, p *protocol.Proof) error {
			found, err := h.Scan(ctx, o.User, o.UID, o.GPUs)
			if err != nil {
				return fmt.Errorf("scanning: %w", err)
			}
			s, err := inspect(ctx, h, o)
			if err != nil {
				return err
			}
			p.Checks = append(p.Checks, releaseChecks()...)
			p.Scrubbed = append(p.Scrubbed, Scrubbed(s, o.GPUs)...)
			p.Leftovers = append(append(p.Leftovers, found...), Remaining(s, o)...)
			return clean(p.Leftovers, nil)
		},
	}
}

// Remaining lists everything on the host OS that belongs to the user, the uid or the GPUs of the
// task. It shares no code with the steps, so that one fault cannot hide its own leftovers.
func Remaining(s State, o protocol.AllocationParams) []string {
	found := Traces(s, o)
	for _, uuid := range o.GPUs {
		present := false
		for _, d := range s.GPUs {
			if d.UUID != uuid {
				continue
			}
			present = true
			if len(d.Users) > 0 {
				found = append(found, fmt.Sprintf("GPU %s is open to %v", uuid, d.Users))
			}
			if d.Dirty {
				found = append(found, fmt.Sprintf("GPU %s has memory that was not overwritten", uuid))
			}
		}
		if !present {
			found = append(found, fmt.Sprintf("GPU %s is not on this node", uuid))
		}
		for _, p := range s.Processes {
			if p.GPU == uuid {
				found = append(found, fmt.Sprintf("process %d (%s) of uid %d uses GPU %s", p.PID, p.Command, p.UID, uuid))
			}
		}
	}
	return found
}

// Traces lists the part of Remaining that is forbidden after another tenant has the GPUs: everything of
// the user or the uid.
func Traces(s State, o protocol.AllocationParams) (found []string) {
	for _, a := range s.Accounts {
		if a.Name == o.User || a.UID == o.UID {
			found = append(found, fmt.Sprintf("account %s with uid %d and %d keys", a.Name, a.UID, len(a.Keys)))
		}
	}
	for _, p := range s.Processes {
		if p.UID == o.UID {
			found = append(found, fmt.Sprintf("process %d (%s) of uid %d", p.PID, p.Command, p.UID))
		}
	}
	for _, f := range s.Files {
		if f.UID == o.UID {
			found = append(found, fmt.Sprintf("file %s of uid %d", f.Path, f.UID))
		}
	}
	for _, d := range s.GPUs {
		if slices.Contains(d.Users, o.User) {
			found = append(found, fmt.Sprintf("GPU %s is open to %s", d.UUID, o.User))
		}
	}
	return found
}

// releaseChecks names what a release is verified by.
func releaseChecks() []string {
	return []string{"accounts", "processes", "files", "device_access", "gpu_processes", "gpu_memory", "scan"}
}

// Scrubbed lists those of the GPUs that are on the node, overwritten and unused. A process on an overwritten GPU may
// have written to its memory again.
func Scrubbed(s State, gpus []string) []string {
	clean := []string{}
	for _, d := range s.GPUs {
		idle := !slices.ContainsFunc(s.Processes, func(p Process) bool { return p.GPU == d.UUID })
		if slices.Contains(gpus, d.UUID) && !d.Dirty && idle {
			clean = append(clean, d.UUID)
		}
	}
	return clean
}
