package task

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/agent/update"
	"github.com/gpuaas/gpuaas/protocol"
)

// updateWithin limits an update, from the installation to the first report of the new build.
const updateWithin = 5 * time.Minute

// agentUpdate replaces the agent by another build. The replacement restarts the agent, so Resume in the
// new build, or in the old one after a return to it, ends the task.
func agentUpdate() Handler {
	return Handler{
		Type: protocol.AgentUpdate, Supported: needsUpdater, Within: updateWithin,
		Run: replaceAgent, Resume: replaceAgent,
	}
}

func needsUpdater(b Backend) error {
	if b.Updater == nil {
		return protocol.Reject(protocol.TypeUnknown, "this build cannot run %s", protocol.AgentUpdate)
	}
	return nil
}

func replaceAgent(ctx context.Context, x *Execution) (Result, error) {
	p, err := protocol.ParamsOf[protocol.AgentUpdateParams](x.Envelope)
	if err != nil {
		return Result{}, err
	}
	if err := x.begin("replace", 1, updateWithin); err != nil {
		return Result{}, err
	}
	err = x.Updater.Become(ctx, update.Request{Task: x.Envelope.Task, Fence: x.Envelope.Fence, Params: p})
	return Result{Answer: map[string]string{"version": p.Version}}, err
}
