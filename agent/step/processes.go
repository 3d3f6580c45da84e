package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
)

// Evict ends the processes on the task's GPUs that are not the tenant's. In a release the tenant's
// own processes have ended already, so no process may be left.
func Evict() Step {
	return Step{
		Name: "evict", Within: quick, Code: protocol.StepFailed,
		Check: func(ctx context.Context, h Host, o protocol.AllocationParams) (bool, error) {
			return observe(ctx, h, o, func(s State) bool { return len(strangers(s, o)) == 0 })
		},
		Do: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return killAll(ctx, h, o, func(s State) []Process { return strangers(s, o) })
		},
		Verify: func(ctx context.Context, h Host, o protocol.AllocationParams) error {
			return clean(observe(ctx, h, o, func(s State) []string { return describe(strangers(s, o)) }))
		},
	}
}

// EndSessions ends every process of the tenant's uid: detached, in another session, or without a
// GPU.
func EndSessions() Step {
	_, verify := absent(func(s State, o protocol.AllocationParams) []string { return describe(s.processesOf(o.UID)) })
	return Step{
		Name: "end_sessions", Within: fair, Code: protocol.StepFailed, Verify: verify,
		// cron can start a process at the next minute although none runs now: the step is never done.
		Check: func(context.Context, Host, protocol.AllocationParams) (bool, error) { return false, nil },
		Do:    func(ctx context.Context, h Host, o protocol.AllocationParams) error { return h.End(ctx, o.User, o.UID) },
	}
}

// rounds limits the race with a process that forks faster than it is found. A process that survives
// all rounds fails the step, and an operator must inspect the node.
const rounds = 5

// killAll reads the processes again before each round, because a process may have forked since the last read.
func killAll(ctx context.Context, h Host, o protocol.AllocationParams, which func(State) []Process) error {
	for range rounds {
		victims, err := observe(ctx, h, o, which)
		if err != nil || len(victims) == 0 {
			return err
		}
		for _, p := range victims {
			if err := h.Kill(ctx, p.PID); err != nil {
				return fmt.Errorf("killing process %d: %w", p.PID, err)
			}
		}
	}
	return nil // verify finds what is left
}

// strangers lists the processes on the task's GPUs that do not run as the tenant.
func strangers(s State, o protocol.AllocationParams) []Process {
	return slices.DeleteFunc(s.on(o.GPUs), func(p Process) bool { return p.UID == o.UID })
}

func describe(processes []Process) (found []string) {
	for _, p := range processes {
		found = append(found, fmt.Sprintf("process: %d (%s) of uid %d runs on %s, expected none", p.PID, plain(p.Command), p.UID, p.place()))
	}
	return found
}

// plain removes the separators of findings from a command. A tenant chooses the names of its processes
// and could otherwise imitate another finding.
func plain(command string) string {
	return strings.NewReplacer(";", " ", ",", " ", ":", " ").Replace(command)
}

func (p Process) place() string {
	if p.GPU == "" {
		return "the host OS"
	}
	return p.GPU
}
