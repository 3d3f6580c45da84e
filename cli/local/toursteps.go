package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/alloc"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/fleet"
	"github.com/gpuaas/gpuaas/cli/money"
	"github.com/gpuaas/gpuaas/cli/output"
	internalmoney "github.com/gpuaas/gpuaas/internal/money"
)

// results contains the results of the steps so far.
type results struct {
	name  string          // of the tour's allocation
	mine  oapi.Allocation // as last read
	node  string          // where it is
	sick  string          // the node with the fault, until it is healed
	order struct {
		sku  string
		gpus int
	}
	before oapi.Balance
	// quiet reports that the tenant had no other burn rate when the tour began. The tour can then
	// compare the balance with its own cost to the cent.
	quiet    bool
	released bool
}

func (t *tour) steps() []step {
	return []step{
		{"Read the fleet", t.showCatalog},
		{"Top up", t.topUp},
		{"Create", t.create},
		{"Read the allocation", t.showAllocation},
		{"Enter the allocation", t.enter},
		{"Drift: the simulated node is changed outside the control plane", t.drift},
		{"Fault: a GPU breaks", t.fault},
		{"Release", t.release},
		{"Pay", t.pay},
	}
}

func (t *tour) showCatalog(ctx context.Context) error {
	if err := t.until(ctx, "a node with free GPUs is ready", t.choose); err != nil {
		return err
	}
	if _, err := t.run(ctx, "doctor"); err != nil {
		return err
	}
	if _, err := t.operate(ctx, "get", "nodes"); err != nil {
		return err
	}
	for _, args := range [][]string{{"get", "skus"}, {"balance"}} {
		if _, err := t.run(ctx, args...); err != nil {
			return err
		}
	}
	balance, err := t.api.Balance(ctx)
	if err != nil {
		return err
	}
	t.before = balance.Value
	used, err := client.ReadAll[oapi.Usage](ctx, t.api, 0, money.Usage(t.api, oapi.GetUsageParams{}))
	if err != nil {
		return err
	}
	t.quiet = t.before.BurnPerHourMinor == 0 && !slices.ContainsFunc(used.Items, func(u oapi.Usage) bool {
		// What ended a moment ago may not be in the ledger yet.
		return u.EndedAt == nil || t.app.Clock.Now().Sub(*u.EndedAt) < 2*time.Minute
	})
	return nil
}

// choose selects the most expensive offer that leaves a GPU of some node free: expensive, so that a
// cent is charged within seconds, and a free GPU for the fault.
func (t *tour) choose(ctx context.Context) (bool, string, error) {
	nodes, err := fleet.Nodes(ctx, t.ops, client.PageSize)
	if err != nil {
		return false, "", err
	}
	skus, err := alloc.Skus(ctx, t.api)
	if err != nil {
		return false, "", err
	}
	most := int64(0)
	for _, n := range nodes.Items {
		if fleet.NodeReady(n) != oapi.ConditionStatusTrue || n.Onboarding != oapi.NodeOnboardingSimulated {
			continue
		}
		if _, err := hostDir(t.app, n.Name); err != nil {
			continue
		}
		for _, s := range skus.Items {
			gpus := min(s.MaxGpus, n.Free-1)
			if s.Name == n.Sku && gpus > 0 && int64(gpus)*s.Price.AmountMinor > most {
				most, t.order.sku, t.order.gpus = int64(gpus)*s.Price.AmountMinor, s.Name, gpus
			}
		}
	}
	return most > 0, fmt.Sprintf("%d nodes, none ready with two free GPUs", len(nodes.Items)), nil
}

func (t *tour) create(ctx context.Context) error {
	t.name = "tour-" + uuid.NewString()[:8]
	if _, err := t.run(ctx, "alloc", "create", "--sku", t.order.sku, "--gpus", strconv.Itoa(t.order.gpus),
		"--name", t.name, "--ttl", "1h", "--wait", "--timeout", "45s", "--yes"); err != nil {
		return err
	}
	text, err := t.quietly(ctx, "alloc", "get", t.name, "-o", "json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), &t.mine); err != nil {
		return fmt.Errorf("alloc get -o json is not the API's JSON: %w", err)
	}
	if t.mine.Status != oapi.AllocationStatusActive || !output.IsTrue(t.mine.Conditions, "Ready") || t.mine.Gpus != t.order.gpus {
		return fmt.Errorf("%s is %s with %d GPUs, not active with %d", t.name, t.mine.Status, t.mine.Gpus, t.order.gpus)
	}
	t.printChecked("%s is active and Ready with %d GPUs", t.name, t.mine.Gpus)
	return nil
}

func (t *tour) showAllocation(ctx context.Context) error {
	if _, err := t.operate(ctx, "describe", "alloc", t.name); err != nil {
		return err
	}
	nodes, err := fleet.Nodes(ctx, t.ops, 0)
	if err != nil {
		return err
	}
	for _, n := range nodes.Items {
		if t.mine.NodeId != nil && n.Id == *t.mine.NodeId {
			t.node = n.Name
		}
	}
	if t.node == "" {
		return fmt.Errorf("no node has the id %v", t.mine.NodeId)
	}
	claimed, err := t.countClaimed(ctx)
	if err != nil {
		return err
	}
	host, err := t.host(t.node)
	if err != nil {
		return err
	}
	open := 0
	for _, g := range host.GPUs {
		if slices.Contains(g.Users, t.mine.Login) {
			open++
		}
	}
	if _, there := host.Accounts[t.mine.Login]; !there || claimed != t.order.gpus || open != t.order.gpus {
		return fmt.Errorf("on %s the account %s exists: %v; %d slots are claimed, %d GPUs are open to it, not %d", t.node, t.mine.Login, there, claimed, open, t.order.gpus)
	}
	t.printChecked("on %s, account %s exists and opens exactly its %d GPUs", t.node, t.mine.Login, open)
	return nil
}

// enter types a command in a terminal of the allocation, over the connection that the agent of its node opens.
func (t *tour) enter(ctx context.Context) error {
	t.print("$ echo 'nvidia-smi -L; exit' | gpuaas terminal %s\n", t.name)
	out, err := t.play(ctx, Indented(t.app.Out), "nvidia-smi -L; exit\n", "terminal", t.name)
	if err != nil {
		return err
	}
	if n := strings.Count(out, "(UUID: "); n != t.order.gpus {
		return fmt.Errorf("nvidia-smi in the allocation lists %d GPUs, not %d", n, t.order.gpus)
	}
	t.printChecked("nvidia-smi in the allocation lists its %d GPUs", t.order.gpus)
	_, err = t.run(ctx, "alloc", "logs", t.name)
	return err
}

// countClaimed counts the slots of the allocation on its node.
func (t *tour) countClaimed(ctx context.Context) (int, error) {
	n, err := t.machine(ctx, t.node)
	claimed := 0
	for _, g := range output.ValueOrZero(n.Gpus) {
		if g.AllocationId != nil && *g.AllocationId == t.mine.Id {
			claimed++
		}
	}
	return claimed, err
}

func (t *tour) machine(ctx context.Context, name string) (oapi.Node, error) {
	n, err := client.Send[oapi.Node](ctx, t.ops, func(ctx context.Context) (*http.Response, error) { return t.ops.GetAdminNode(ctx, name) })
	return n.Value, err
}

func (t *tour) host(node string) (*sim.Host, error) {
	dir, err := hostDir(t.app, node)
	if err != nil {
		return nil, err
	}
	return sim.Read(sim.Path(dir))
}

func (t *tour) release(ctx context.Context) error {
	if err := t.until(ctx, "the allocation has a cost", func(ctx context.Context) (bool, string, error) {
		got, err := t.api.Allocation(ctx, t.mine.Id)
		return got.Value.Cost.AmountMinor > 0, "cost so far " + output.Amount(got.Value.Cost), err
	}); err != nil {
		return err
	}
	if _, err := t.run(ctx, "alloc", "release", t.name, "--wait", "--timeout", "45s", "--yes"); err != nil {
		return err
	}
	t.released = true
	got, err := t.api.Allocation(ctx, t.mine.Id)
	if err != nil {
		return err
	}
	if t.mine = got.Value; t.mine.Status != oapi.AllocationStatusReleased {
		return fmt.Errorf("%s is %s, not released", t.name, t.mine.Status)
	}
	claimed, err := t.countClaimed(ctx)
	if err != nil {
		return err
	}
	host, err := t.host(t.node)
	if err != nil {
		return err
	}
	if _, there := host.Accounts[t.mine.Login]; there || claimed > 0 {
		return fmt.Errorf("after the release, account %s exists on %s: %v; %d slots are claimed", t.mine.Login, t.node, there, claimed)
	}
	t.printChecked("account %s is removed from %s, and no slot is claimed", t.mine.Login, t.node)
	return nil
}

func (t *tour) pay(ctx context.Context) error {
	if _, err := t.run(ctx, "usage"); err != nil {
		return err
	}
	text, err := t.quietly(ctx, "usage", "--limit", "0", "-o", "json")
	if err != nil {
		return err
	}
	var used oapi.UsageList
	if err := json.Unmarshal([]byte(text), &used); err != nil {
		return fmt.Errorf("usage -o json is not the API's JSON: %w", err)
	}
	i := slices.IndexFunc(used.Items, func(u oapi.Usage) bool { return u.AllocationId == t.mine.Id })
	if i < 0 {
		return fmt.Errorf("no use of %s was measured", t.name)
	}
	u := used.Items[i]
	due, err := internalmoney.Due(internalmoney.Minor(u.Price.AmountMinor), int64(u.Gpus), u.Seconds)
	if err != nil {
		return err
	}
	if u.EndedAt == nil || u.Cost.AmountMinor != int64(due) {
		return fmt.Errorf("%d s of %d GPUs at %s cost %d, the usage reports %s (open: %v)", u.Seconds, u.Gpus, output.Amount(u.Price), due, output.Amount(u.Cost), u.EndedAt == nil)
	}
	t.printChecked("the interval is closed: %d s × %d GPUs × %s per hour = %s", u.Seconds, u.Gpus, output.Amount(u.Price), output.Amount(u.Cost))
	if err := t.until(ctx, "the ledger has charged "+output.Amount(u.Cost), func(ctx context.Context) (bool, string, error) { return t.charged(ctx, u.Cost) }); err != nil {
		return err
	}
	if err := t.showEvents(ctx); err != nil {
		return err
	}
	if err := t.books(ctx, u.Cost); err != nil {
		return err
	}
	_, err = t.run(ctx, "balance")
	return err
}

func (t *tour) charged(ctx context.Context, cost oapi.Money) (bool, string, error) {
	now, err := t.api.Balance(ctx)
	if err != nil {
		return false, "", err
	}
	fell := t.before.AmountMinor - now.Value.AmountMinor
	saw := fmt.Sprintf("the balance fell by %s", output.Amount(oapi.Money{AmountMinor: fell, Currency: cost.Currency}))
	if t.quiet {
		return fell == cost.AmountMinor, saw, nil
	}
	return fell >= cost.AmountMinor, saw + ", with other usage", nil
}

// showEvents searches the events for the milestones of the allocation.
func (t *tour) showEvents(ctx context.Context) error {
	text, err := t.quietly(ctx, "events", "--for", t.mine.Id.String(), "--limit", "0", "-o", "json")
	if err != nil {
		return err
	}
	var types []string
	for line := range strings.Lines(text) {
		var f client.Event
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			return fmt.Errorf("reading event: %w", err)
		}
		types = append(types, f.Type)
	}
	at := -1
	for _, milestone := range []string{"provisioning.requested", "provisioning.active", "provisioning.releasing.requested", "provisioning.releasing.completed"} {
		i := slices.Index(types, milestone)
		if i <= at {
			return fmt.Errorf("the events of %s are %v; %s is missing, or too early", t.name, types, milestone)
		}
		at = i
	}
	t.printChecked("the events are complete and in order: %s", strings.Join(types, ", "))
	return nil
}
