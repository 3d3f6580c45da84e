package step

import (
	"context"
	"fmt"
	"slices"

	"github.com/gpuaas/gpuaas/protocol"
)

// ScrubBefore overwrites the memory of the GPUs before a tenant gets them. It skips a device that
// this tenant already uses, because the memory contains the tenant's own work.
func ScrubBefore() Step {
	return scrub("scrub_before", func(s State, o protocol.AllocationParams) []string {
		held := s.granted(o.User)
		return slices.DeleteFunc(dirty(s, o), func(uuid string) bool { return slices.Contains(held, uuid) })
	})
}

// ScrubAfter overwrites the memory that the tenant has used.
func ScrubAfter() Step { return scrub("scrub_after", dirty) }

// scrub does not repeat a failed scrub: the device is suspect, and a second attempt that passes by chance would hide
// the fault.
func scrub(name string, which func(State, protocol.AllocationParams) []string) Step {
	return Step{
		Name: name, Within: scrubFor, Code: protocol.ScrubFailed,
		Check: func(ctx context.Context, h Host, o protocol.AllocationParams) (bool, error) {
			return observe(ctx, h, o, func(s State) bool { return len(which(s, o)) == 0 })
		},
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			gpus, err := observe(ctx, h, o, func(s State) []string { return which(s, o) })
			if err != nil {
				return err
			}
			for _, uuid := range gpus {
				if err := h.Scrub(ctx, uuid); err != nil {
					return fmt.Errorf("scrubbing %s: %w", uuid, err)
				}
			}
			return nil
		},
		Verify: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return clean(observe(ctx, h, o, func(s State) (left []string) {
				for _, uuid := range which(s, o) {
					left = append(left, uuid+" is not scrubbed")
				}
				return left
			}))
		},
	}
}

// dirty lists the GPUs of the task that need a scrub. A GPU that is missing on the node needs one,
// too: it may return with its memory unchanged.
func dirty(s State, o protocol.AllocationParams) (uuids []string) {
	for _, uuid := range o.GPUs {
		if d, ok := s.device(uuid); !ok || d.Dirty {
			uuids = append(uuids, uuid)
		}
	}
	return uuids
}
