package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func NewDev(a *output.Console) *cobra.Command {
	return output.Group("dev", "Inject faults into simulated nodes and payments",
		newDevDrift(a), newDevFault(a), newDevPartition(a), newDevHeal(a), newDevPayments(a))
}

func newDevDrift(a *output.Console) *cobra.Command {
	way := sim.DriftKeys
	cmd := &cobra.Command{
		Use: "drift NODE", Short: "Change a simulated node outside the control plane", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return changeNode(a, args[0], func(dir string) (string, error) { return sim.Drift(dir, way) })
		},
	}
	cmd.Flags().StringVar(&way, "way", way, "how: "+strings.Join(sim.Drifts(), ", "))
	return cmd
}

func newDevFault(a *output.Console) *cobra.Command {
	gpu, xid := 0, 79
	cmd := &cobra.Command{
		Use: "fault NODE", Short: "Inject a GPU fault", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return changeNode(a, args[0], func(dir string) (string, error) {
				return fmt.Sprintf("GPU %d reports XID %d", gpu, xid), sim.Fault(dir, gpu, xid)
			})
		},
	}
	cmd.Flags().IntVar(&gpu, "gpu", gpu, "index of the GPU")
	cmd.Flags().IntVar(&xid, "xid", xid, "XID number; 79 removes the GPU from the bus")
	return cmd
}

func newDevPartition(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "partition NODE", Short: "Disconnect a simulated node", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return changeNode(a, args[0], func(dir string) (string, error) { return "cut off from the control plane", sim.Partition(dir) })
		},
	}
}

func newDevHeal(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "heal NODE", Short: "Clear faults and partition of a node", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return changeNode(a, args[0], func(dir string) (string, error) { return "faults and partition are over", sim.Heal(dir) })
		},
	}
}

// changeNode edits the state file of a simulated node. No server is involved: the agent finds the
// difference as on a real node.
func changeNode(a *output.Console, node string, do func(dir string) (did string, err error)) error {
	node = strings.TrimPrefix(node, "node/")
	dir, err := hostDir(a, node)
	if err != nil {
		return err
	}
	did, err := do(dir)
	if err != nil {
		return errs.New(errs.Conflict, "%s: %v", node, err).Try("gpuaas describe node %s", node)
	}
	document, err := output.Encode(map[string]string{"node": node, "did": did})
	if err != nil {
		return err
	}
	t := output.Table{Head: []string{"NODE", "DID"}}
	t.Add("node/"+node, node, did)
	return a.Show(document, t)
}

// hostDir returns the state directory of a simulated node.
func hostDir(a *output.Console, node string) (string, error) {
	s, err := client.ReadSettings(a)
	if err != nil {
		return "", err
	}
	if s.DataDir == "" {
		return "", errs.New(errs.NotFound, "the profile names no data directory: faults can be injected only where gpuaas up runs").Try("gpuaas up, on the local machine")
	}
	all := filepath.Join(s.DataDir, "agents")
	// The name becomes a path: only one that is there, and nothing above it.
	entries, err := os.ReadDir(all)
	if err != nil {
		return "", errs.New(errs.NotFound, "%s contains no simulated nodes", all).Try("gpuaas up").Because(err)
	}
	var names []string
	for _, entry := range entries {
		if _, err := os.Stat(sim.Path(filepath.Join(all, entry.Name()))); err != nil {
			continue
		}
		if entry.Name() == node {
			return filepath.Join(all, node), nil
		}
		names = append(names, entry.Name())
	}
	const shown = 10
	if len(names) > shown {
		names = append(names[:shown], fmt.Sprintf("and %d more", len(names)-shown))
	}
	return "", errs.New(errs.NotFound, "simulated node %q does not exist", node).Try("one of: %s", strings.Join(names, ", "))
}
