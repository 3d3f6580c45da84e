package fleet

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

const setAgent = `
	UPDATE nodes SET agent_version = $2, agent_platform = $3, version = version + 1, updated_at = now()
	WHERE id = $1 AND (agent_version, agent_platform) IS DISTINCT FROM ($2, $3)`

// ApplyAgent stores the agent's build of a changed report, and the platform that its successor must be
// built for. If the two processes report different builds, the node is in the middle of an update and
// has neither.
func (*Service) ApplyAgent(ctx context.Context, tx pgx.Tx, id ids.Node, r protocol.Report) error {
	version := r.Agent
	if r.Helper != "" && r.Helper != r.Agent {
		version = ""
	}
	if _, err := tx.Exec(ctx, setAgent, id, version, r.Platform); err != nil {
		return fmt.Errorf("recording the agent of %s: %w", id, err)
	}
	return nil
}
