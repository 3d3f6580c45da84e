package local

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/fleet"
	"github.com/gpuaas/gpuaas/cli/inspect"
	"github.com/gpuaas/gpuaas/cli/output"
)

// drift changes a simulated node and waits until the loop has healed it.
func (t *tour) drift(ctx context.Context) error {
	before, err := t.host(t.node)
	if err != nil {
		return err
	}
	since := t.app.Clock.Now().Add(-time.Second)
	if _, err := t.run(ctx, "dev", "drift", t.node); err != nil {
		return err
	}
	if err := t.until(ctx, "the loop planned to heal it, because it drifted", func(ctx context.Context) (bool, string, error) {
		w, err := inspect.Reasons(ctx, t.app, t.ops, since, func(s oapi.PlanAction) bool {
			here := s.ObjectId == t.mine.Id || s.NodeId != nil && t.mine.NodeId != nil && *s.NodeId == *t.mine.NodeId
			return here && strings.Contains(s.Reason, "drift")
		})
		return len(w.Steps) > 0, "no such plan", err
	}); err != nil {
		return err
	}
	return t.until(ctx, "the node matches desired state again, and the allocation is Ready", func(ctx context.Context) (bool, string, error) {
		now, err := t.host(t.node)
		if err != nil {
			return false, "", err
		}
		got, err := t.api.Allocation(ctx, t.mine.Id)
		if err != nil {
			return false, "", err
		}
		same := sameAccounts(before, now)
		ready := got.Value.Status == oapi.AllocationStatusActive && output.IsTrue(got.Value.Conditions, "Ready")
		return same && ready, fmt.Sprintf("accounts as before: %v, Ready: %v", same, ready), nil
	})
}

// sameAccounts leaves accounts aside that came later: they are others' business.
func sameAccounts(before, now *sim.Host) bool {
	for name, was := range before.Accounts {
		is, ok := now.Accounts[name]
		if !ok || is.UID != was.UID || !slices.Equal(is.Keys, was.Keys) {
			return false
		}
	}
	return true
}

// fault injects a fault into a GPU without an allocation, waits until the platform stops selling
// it, and heals it.
func (t *tour) fault(ctx context.Context) error {
	node, gpu, err := t.freeGPU(ctx)
	if err != nil {
		return err
	}
	host, err := t.host(node)
	if err != nil {
		return err
	}
	index := slices.IndexFunc(host.GPUs, func(g *sim.GPU) bool { return g.UUID == gpu })
	if index < 0 {
		return fmt.Errorf("%s has no GPU %s", node, gpu)
	}
	t.sick = node
	if _, err := t.run(ctx, "dev", "fault", node, "--gpu", strconv.Itoa(index), "--xid", "79"); err != nil {
		return err
	}
	if err := t.until(ctx, fmt.Sprintf("GPU %d of %s is off sale", index, node), func(ctx context.Context) (bool, string, error) {
		g, err := t.device(ctx, node, gpu)
		return g.Health != "healthy" && g.SlotStatus == "quarantined", g.Health + ", slot " + g.SlotStatus, err
	}); err != nil {
		return err
	}
	if _, err := t.operate(ctx, "describe", "node", node); err != nil {
		return err
	}
	if _, err := t.run(ctx, "dev", "heal", node); err != nil {
		return err
	}
	t.sick = ""
	return t.until(ctx, "it is healthy and for sale again", func(ctx context.Context) (bool, string, error) {
		g, err := t.device(ctx, node, gpu)
		return g.Health == "healthy" && g.SlotStatus == "clean", g.Health + ", slot " + g.SlotStatus, err
	})
}

func (t *tour) freeGPU(ctx context.Context) (node, gpu string, err error) {
	nodes, err := fleet.Nodes(ctx, t.ops, client.PageSize)
	if err != nil {
		return "", "", err
	}
	// The node of the tour's allocation is the first: a fault next to a tenant demonstrates the
	// isolation.
	slices.SortStableFunc(nodes.Items, func(a, b oapi.Node) int {
		if a.Name == t.node {
			return -1
		}
		if b.Name == t.node {
			return 1
		}
		return 0
	})
	for _, n := range nodes.Items {
		if _, err := hostDir(t.app, n.Name); err != nil || n.Free == 0 {
			continue
		}
		full, err := t.machine(ctx, n.Name)
		if err != nil {
			return "", "", err
		}
		for _, g := range output.ValueOrZero(full.Gpus) {
			if g.Present && g.SlotStatus == "clean" {
				return n.Name, g.Uuid, nil
			}
		}
	}
	return "", "", fmt.Errorf("no node has a free GPU for the fault")
}

func (t *tour) device(ctx context.Context, node, gpu string) (oapi.Gpu, error) {
	n, err := t.machine(ctx, node)
	for _, g := range output.ValueOrZero(n.Gpus) {
		if g.Uuid == gpu {
			return g, err
		}
	}
	return oapi.Gpu{}, err
}

// tidy releases the allocation and heals the GPU of an unfinished tour. It also runs after Ctrl-C,
// hence its own timeout.
func (t *tour) tidy(ctx context.Context) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if t.sick != "" {
		_, _ = t.quietly(own, "dev", "heal", t.sick)
	}
	if t.name == "" || t.released {
		return
	}
	if _, err := t.quietly(own, "alloc", "release", t.name, "--yes"); err == nil {
		t.app.Notify("%s was released.", t.name)
	}
}
