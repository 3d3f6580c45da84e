package recovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/restore"
)

// plan contains what a confirmation changes.
type plan struct {
	fences  map[uuid.UUID]int64 // to raise, by allocation
	release []restore.Difference
	unknown []restore.Difference
	cordon  map[ids.Node]string // the reason, by node
}

func (s State) plan() plan {
	p := plan{fences: map[uuid.UUID]int64{}, cordon: map[ids.Node]string{}}
	for _, d := range s.Differences {
		switch d.Kind {
		case restore.UnknownAllocation:
			p.unknown = append(p.unknown, d)
			p.cordon[d.NodeID] = "runs an allocation that the restored database does not know: " + d.Allocation.String()
		case restore.ReleasedOnNode:
			p.fences[*d.Allocation] = d.Fence + 1
			p.release = append(p.release, d)
		case restore.NewerFence:
			p.fences[*d.Allocation] = d.Fence + 1
		}
	}
	for _, n := range s.Nodes {
		if n.ReportedAt == nil {
			p.cordon[n.ID] = "did not report before the restore was confirmed"
		}
	}
	return p
}

// Digest identifies what a confirmation of this state does.
func (s State) Digest() string {
	p := s.plan()
	text, err := json.Marshal([]any{p.fences, p.release, p.unknown, p.cordon})
	if err != nil {
		panic(err) // each of them can be encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Effects counts the changes of a confirmation.
type Effects struct {
	Fences, Releases, Unknown, Cordons int
}

// Effects returns what a confirmation of this state does.
func (s State) Effects() Effects {
	p := s.plan()
	return Effects{len(p.fences), len(p.release), len(p.unknown), len(p.cordon)}
}
