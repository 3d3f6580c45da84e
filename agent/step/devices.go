package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
)

// PutDeviceAccess creates the slice of the tenant: access to exactly the GPUs of the task, and a share
// of the node.
func PutDeviceAccess() Step {
	check, verify := absent(otherSlice)
	return Step{
		Name: "device_access", Within: fair, Code: protocol.StepFailed, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			if err := shutOut(ctx, h, o); err != nil {
				return err
			}
			return h.PutSlice(ctx, Slice{User: o.User, UID: o.UID, GPUs: o.GPUs, Limits: o.Limits})
		},
		Undo: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return h.RemoveSlice(ctx, o.User, o.UID)
		},
	}
}

// RemoveAccess closes every GPU to the tenant. The slice stays until its last process has ended,
// because nothing else restricts the process.
func RemoveAccess() Step {
	check, verify := absent(func(s State, o protocol.AllocationParams) []string {
		if left := s.granted(o.User); len(left) > 0 {
			return []string{fmt.Sprintf("%s still opens %s", o.User, strings.Join(left, ", "))}
		}
		return nil
	})
	return Step{
		Name: "remove_access", Within: fair, Code: protocol.StepFailed, Check: check, Verify: verify,
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			s, err := inspect(ctx, h, o)
			if err != nil {
				return err
			}
			return h.Shut(ctx, o.User, s.granted(o.User))
		},
	}
}

// shutOut revokes the access of other users to the GPUs of the task. A slot has one holder, so any other
// access was given by a process of the host OS without a task.
func shutOut(ctx context.Context, h Host, o protocol.AllocationParams) error {
	s, err := inspect(ctx, h, o)
	if err != nil {
		return err
	}
	for _, user := range s.others(o) {
		if err := h.Shut(ctx, user, o.GPUs); err != nil {
			return err
		}
	}
	return nil
}

// others lists the other users with access to the GPUs of the task, each once.
func (s State) others(o protocol.AllocationParams) (users []string) {
	for _, gpu := range o.GPUs {
		d, _ := s.device(gpu)
		for _, user := range d.Users {
			if user != o.User && !slices.Contains(users, user) {
				users = append(users, user)
			}
		}
	}
	return users
}

// otherSlice lists the differences of the slice. A limit of zero in the task means no limit, so it is not compared.
func otherSlice(s State, o protocol.AllocationParams) []string {
	found := otherAccess(s, o)
	a, _ := s.account(o.User)
	for _, limit := range []struct {
		name       string
		have, want int64
	}{
		{"cpu_weight", int64(a.Limits.CPUWeight), int64(o.Limits.CPUWeight)},
		{"memory_mib", a.Limits.MemoryMiB, o.Limits.MemoryMiB},
		{"tasks", a.Limits.Tasks, o.Limits.Tasks},
	} {
		if limit.want != 0 && limit.have != limit.want {
			found = append(found, fmt.Sprintf("%s: %s has %d, expected %d", limit.name, o.User, limit.have, limit.want))
		}
	}
	return append(found, a.wrong("slice")...)
}

// otherAccess checks both directions: the GPUs that are open to the tenant, and the other accounts to which its GPUs are
// open. The second is a leak of the tenant's data although the tenant's own slice is correct.
func otherAccess(s State, o protocol.AllocationParams) (found []string) {
	if have := s.granted(o.User); !slices.Equal(have, o.GPUs) {
		found = append(found, fmt.Sprintf("access: %s opens %d GPUs that are not those ordered, expected %d", o.User, len(have), len(o.GPUs)))
	}
	for _, uuid := range o.GPUs {
		d, _ := s.device(uuid)
		for _, user := range d.Users {
			if user != o.User {
				found = append(found, fmt.Sprintf("access: %s is also open to %s, expected no other account", uuid, user))
			}
		}
	}
	return found
}
