package nodeapi

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// The nodes renew one after the other, and all of them within renewOver.
func TestRenewalsAreSpread(t *testing.T) {
	t.Parallel()
	const nodes = 1000
	c, began := &recall{}, time.Unix(1_700_000_000, 0)
	all := make([]ids.Node, nodes)
	for i := range all {
		all[i] = ids.New[ids.Node]()
	}
	c.turn("stamp", all[0], began)
	for share, most := range map[time.Duration][2]int{0: {0, 5}, renewOver / 2: {nodes * 4 / 10, nodes * 6 / 10}, renewOver: {nodes, nodes}} {
		due := 0
		for _, node := range all {
			if c.turn("stamp", node, began.Add(share)) {
				due++
			}
		}
		if due < most[0] || due > most[1] {
			t.Errorf("after %s %d of %d nodes renew", share, due, nodes)
		}
	}
}
