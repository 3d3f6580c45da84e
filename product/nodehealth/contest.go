package nodehealth

import (
	"strings"
)

// The checks of a GPU that two nodes report. Neither is unhealthy: a node with a stolen key could
// otherwise stop the meters of other nodes.
const (
	checkContested = "gpu_contested"       // on the node that reported the GPU first
	checkForeign   = "gpu_of_another_node" // on the node that reported it later
)

func isContest(r Report) bool { return r.Check == checkContested || r.Check == checkForeign }

// contests returns the findings about the GPUs that this node and another one report.
func (k *nodeState) contests() (all []Report) {
	if len(k.Contested) > 0 {
		all = append(all, ofTable(sourceInventory, "", checkForeign, "it reports GPU "+strings.Join(k.Contested, ", GPU ")))
	}
	for _, c := range k.Cards {
		if len(c.Contested) > 0 {
			all = append(all, ofTable(sourceInventory, c.UUID, checkContested, "node "+strings.Join(c.Contested, ", node ")+" reports this GPU, too"))
		}
	}
	return all
}
