package rollout

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// updateRows derives the status of the running updates from the latest reports and task results, and
// returns the updated rows.
func (in Input) updateRows(p *Plan) []Row {
	nodes := map[ids.Node]Node{}
	for _, n := range in.Nodes {
		nodes[n.ID] = n
	}
	rows := make([]Row, 0, len(in.Rows))
	for _, r := range in.Rows {
		if status, message := in.rowStatus(r, nodes[r.Node]); status != r.Status {
			p.Moves = append(p.Moves, Move{r.Node, r.Version, status, message})
			r.Status, r.Message, r.UpdatedAt = status, message, in.Now
		}
		rows = append(rows, r)
	}
	return rows
}

// rowStatus returns the current status of a row and its message.
func (in Input) rowStatus(r Row, n Node) (Status, string) {
	late := !in.Now.Before(r.Deadline)
	has := n.Reachable && n.Has == r.Version && grade(n.Health) <= grade(r.Before)
	switch {
	case r.Status == Failed && has:
		return Healthy, "" // later than it had time for
	case !r.Status.underWay():
		return r.Status, r.Message
	case r.Outcome == protocol.Succeeded && has:
		return Healthy, ""
	case r.Code == protocol.Expired || r.Code == protocol.StaleFence || r.Lapsed && r.Outcome == "":
		return Waiting, "the task was not worked on in time"
	case r.Code == protocol.RolledBack:
		return RolledBack, r.Message
	case r.Outcome == protocol.Failed || r.Outcome == protocol.Rejected:
		return Failed, cmp.Or(r.Message, string(r.Code))
	case !late && r.Fetched:
		return Running, ""
	case !late:
		return r.Status, r.Message
	case !r.Fetched && r.Outcome == "":
		return Waiting, "the node did not fetch the task"
	case n.ID == (ids.Node{}):
		return Failed, "the node is retired"
	case n.Has == r.Version && n.Reachable:
		return Failed, fmt.Sprintf("the node is %s since, and was %s", n.Health, r.Before)
	default:
		return Failed, "no report of this version by " + r.Deadline.UTC().Format(time.RFC3339)
	}
}
