// Package fleet contains the commands of nodes, agent releases, and rotations of keys.
package fleet

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

const nodeText = `A node is created, enrols with an enrolment token, and then offers its slots. An operator
hold blocks a node or a slot. It has an owner, a reason and optionally an end. Several
holds can exist at the same time. Only the owner of a hold or an admin removes it.`

// NewNode returns the group node with further commands of other packages.
func NewNode(a *output.Console, more ...*cobra.Command) *cobra.Command {
	cmd := output.Group("node", "Manage nodes", append(more,
		newNodeAdd(a), newNodeList(a), newNodeCordon(a), newNodeUncordon(a), newNodeDrain(a), newNodeProbe(a), newNodeUpdate(a), newNodeRetire(a),
		newNodeEnrol(a), newNodeRevoke(a), newNodeQuarantine(a), newNodeClear(a), newNodeAccept(a), newNodeHealth(a), newNodeBreaker(a), newNodeReset(a), newNodeRetirement(a))...)
	cmd.Long = nodeText
	cmd.Example = "  gpuaas node drain gpu-07 --reason \"board swap\" --wait\n  gpuaas node uncordon gpu-07"
	return cmd
}

func newNodeList(a *output.Console) *cobra.Command {
	cmd := NewGetNodes(a)
	cmd.Use, cmd.Aliases = "list", []string{"ls"}
	return cmd
}

// onNode completes a command that changes one node and prints its new state.
func onNode(a *output.Console, cmd *cobra.Command, send func(c *client.Client, name string) (client.Sending, error)) *cobra.Command {
	return onNodeShown(a, cmd, send, heldTable)
}

// nodeView renders nodes after a command has changed them.
type nodeView func(a *output.Console, all ...oapi.Node) output.Table

func onNodeShown(
	a *output.Console, cmd *cobra.Command, send func(c *client.Client, name string) (client.Sending, error), show nodeView,
) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		return send(c, nodeNamed(args[0]))
	}, show)
}

func nodeNamed(ref string) string { return strings.TrimPrefix(ref, "node/") }

// heldTable prints the state of a node after a command, with its operator holds. Of several it names
// the oldest and counts the others.
func heldTable(a *output.Console, all ...oapi.Node) output.Table {
	return nodesHeld(all, func(oapi.Hold) bool { return true })
}

// heldFor is heldTable for a command that has set an operator hold. Of several the table displays this
// one; the API lists the oldest first, which may be another operator's.
func heldFor(kind oapi.HoldKind, reason *string) nodeView {
	return func(a *output.Console, all ...oapi.Node) output.Table {
		return nodesHeld(all, func(h oapi.Hold) bool { return h.Kind == kind && h.Reason == *reason })
	}
}

func nodesHeld(all []oapi.Node, named func(oapi.Hold) bool) output.Table {
	t := output.Table{Head: []string{"NAME", "STATUS", "HEALTH", "REACHABLE", "FREE", "HOLD", "UNTIL", "REASON"}}
	for _, n := range all {
		by, until, why := "-", "-", "-"
		if holds := output.ValueOrZero(n.Holds); len(holds) > 0 {
			h := holds[max(0, slices.IndexFunc(holds, named))]
			by, why = string(h.Kind)+" of "+OwnerOf(h), h.Reason
			if h.DeadlineAt != nil {
				until = output.FormatTime(*h.DeadlineAt)
			}
			if more := len(holds) - 1; more > 0 {
				why += fmt.Sprintf(" (and %d more)", more)
			}
		}
		t.Add("node/"+n.Name, n.Name, nodeStatus(n), string(n.Health), string(n.Reachability), fmt.Sprintf("%d/%d", n.Free, n.Slots), by, until, output.CellText(why))
	}
	return t
}

func OwnerOf(h oapi.Hold) string {
	if h.OwnerName != nil {
		return *h.OwnerName
	}
	if h.Owner == "system" {
		return "the platform"
	}
	return h.Owner
}

// nodeStatus returns the lifecycle and the reasons why the node is not sold.
func nodeStatus(n oapi.Node) string {
	status := string(n.Lifecycle)
	if n.Cordoned && n.Lifecycle != oapi.NodeLifecycleDraining && n.Lifecycle != oapi.NodeLifecycleDrained {
		status += ",cordoned"
	}
	return status
}

func newNodeCordon(a *output.Console) *cobra.Command {
	var reason, span string
	cmd := &cobra.Command{Use: "cordon NODE", Short: "Cordon a node", Example: "  gpuaas node cordon gpu-07 --reason \"fans are loud\" --for 2h"}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	cmd.Flags().StringVar(&span, "for", "", "for how long, like 2h or 7d; until it is lifted when left out")
	_ = cmd.MarkFlagRequired("reason")
	return onNodeShown(a, cmd, func(c *client.Client, name string) (client.Sending, error) {
		until, err := endOf(a, span, "--for")
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CordonNode(ctx, name, nil, oapi.NodeCordon{Reason: reason, Until: until}, once)
		}, err
	}, heldFor(oapi.HoldKindCordon, &reason))
}

// endOf is the end of a length of time that begins now; nil for none.
func endOf(a *output.Console, span, flag string) (*time.Time, error) {
	if span == "" {
		return nil, nil //nolint:nilnil // no end was asked for
	}
	d, err := output.ParseSpan(span)
	if err != nil {
		return nil, output.UsageError("%s: %v", flag, err)
	}
	end := a.Clock.Now().Add(d).UTC().Truncate(time.Second)
	return &end, nil
}

func newNodeUncordon(a *output.Console) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "uncordon NODE", Aliases: []string{"undrain"}, Short: "Uncordon a node",
		Example: "  gpuaas node uncordon gpu-07\n  gpuaas node uncordon gpu-07 --force   # also the holds of other operators; needs role admin",
	}
	cmd.Flags().BoolVar(&force, "force", false, "also remove the holds of other operators; needs role admin")
	return onNode(a, cmd, func(c *client.Client, name string) (client.Sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.UncordonNode(ctx, name, nil, oapi.NodeUncordon{Force: output.PointerOrNil(force)}, once)
		}, nil
	})
}

func newNodeDrain(a *output.Console) *cobra.Command {
	var reason, grace string
	var wait bool
	timeout := 2 * time.Hour
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Drain a node", Args: cobra.ExactArgs(1),
		Example: "  gpuaas node drain gpu-07 --reason \"board swap\" --grace 30m --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			body := oapi.NodeDrain{Reason: reason}
			if cmd.Flags().Changed("grace") {
				d, err := output.ParseSpan(grace)
				if err != nil {
					return output.UsageError("--grace: %v", err)
				}
				minutes := int(d / time.Minute)
				body.GraceMinutes = &minutes
			}
			name := nodeNamed(args[0])
			made, err := client.Change[oapi.Node](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DrainNode(ctx, name, nil, body, once)
			})
			if err != nil {
				return err
			}
			if !wait {
				return a.Show(made.Raw, heldFor(oapi.HoldKindDrain, &reason)(a, made.Value))
			}
			return awaitDrained(cmd.Context(), a, c, name, timeout)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&reason, "reason", "", "reason, which tenants can read; required")
	flags.StringVar(&grace, "grace", "", "how long tenants may stay, like 30m or 0m; by policy when left out")
	flags.BoolVar(&wait, "wait", false, "wait until the node has no allocations")
	flags.DurationVar(&timeout, "timeout", timeout, "how long to wait")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

// drainPoll is the interval at which a drain is polled. The drain continues without the command.
const drainPoll = time.Second

// awaitDrained prints the number of remaining allocations until it is zero.
func awaitDrained(ctx context.Context, a *output.Console, c *client.Client, name string, timeout time.Duration) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := ""
	for {
		got, err := client.Send[oapi.Node](within, c, func(ctx context.Context) (*http.Response, error) { return c.GetAdminNode(ctx, name) })
		switch {
		case ctx.Err() != nil:
			return &output.CommandError{Message: name + " drains on; only the waiting was stopped", Code: output.CodeInterrupted, Try: "gpuaas describe node/" + name, Correlation: c.Correlation, Exit: output.ExitInterrupted}
		case within.Err() != nil:
			return &output.CommandError{Message: fmt.Sprintf("%s is not drained after %s", name, timeout), Code: output.CodeTimeout, Try: "gpuaas describe node/" + name, Correlation: c.Correlation, Exit: output.ExitTimeout}
		case err != nil:
			return err
		}
		n := got.Value
		if n.Lifecycle == oapi.NodeLifecycleDrained {
			a.Notify("%s %s is drained", output.SymbolGood, name)
			return a.Show(got.Raw, heldTable(a, n))
		}
		if n.EvictsAt == nil {
			return &output.CommandError{Message: name + " is no longer draining: the drain was cancelled", Code: output.CodeDeclined, Try: "gpuaas describe node/" + name, Exit: output.ExitFailure}
		}
		if now := DrainWaits(a, n); now != last {
			a.Notify("%s %s", output.SymbolBusy, now)
			last = now
		}
		if err := client.Sleep(within, drainPoll); err != nil {
			continue // which of the two is over is printed above
		}
	}
}

// DrainWaits describes what a drain waits for.
func DrainWaits(a *output.Console, n oapi.Node) string {
	switch {
	case output.ValueOrZero(n.Occupied) == 0:
		return n.Name + " is about to be drained"
	case n.Reachability != oapi.NodeReachabilityReachable:
		return fmt.Sprintf("%s does not report: %d slots wait for its proof", n.Name, output.ValueOrZero(n.Occupied))
	}
	return fmt.Sprintf("%s: %d slots are occupied; the platform releases them at %s", n.Name, output.ValueOrZero(n.Occupied), output.FormatTime(output.ValueOrZero(n.EvictsAt)))
}

func newNodeProbe(a *output.Console) *cobra.Command {
	return onNode(a, &cobra.Command{Use: "probe NODE", Short: "Probe a node"}, func(c *client.Client, name string) (client.Sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ProbeNode(ctx, name, nil, oapi.Empty{}, once)
		}, nil
	})
}

func newNodeRetire(a *output.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "retire NODE", Short: "Retire a node", Args: cobra.ExactArgs(1)}
	return client.DeleteCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Effect, error) {
		name := nodeNamed(args[0])
		return client.Effect{Name: name, What: name + " leaves the fleet", Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.RetireNode(ctx, name, nil, once)
		}}, nil
	})
}

func newNodeRevoke(a *output.Console) *cobra.Command {
	var reason string
	cmd := &cobra.Command{Use: "revoke NODE", Short: "Revoke node certificates", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	_ = cmd.MarkFlagRequired("reason")
	return client.DeleteCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Effect, error) {
		name := nodeNamed(args[0])
		return client.Effect{Name: name, What: name + ": all certificates are revoked", Send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.RevokeNode(ctx, name, nil, oapi.Reason{Reason: reason}, once)
		}}, nil
	})
}

// onSlot completes a command about one slot, which is named by its node and the
// index of its GPU, or by its id.
func onSlot(a *output.Console, cmd *cobra.Command, send func(c *client.Client, id uuid.UUID, reason string) client.Sending) *cobra.Command {
	var reason string
	cmd.Args = cobra.ExactArgs(1)
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	_ = cmd.MarkFlagRequired("reason")
	return client.ChangeCommand(a, cmd, func(ctx context.Context, c *client.Client, args []string) (client.Sending, error) {
		id, err := slotOf(ctx, c, args[0])
		return send(c, id, reason), err
	}, slotTable)
}

func slotOf(ctx context.Context, c *client.Client, ref string) (uuid.UUID, error) {
	if id, err := uuid.Parse(strings.TrimPrefix(ref, "slot/")); err == nil {
		return id, nil
	}
	name, index, found := strings.Cut(nodeNamed(ref), ":")
	if !found {
		f := output.UsageError("%q names no slot", ref)
		f.Try = "like gpu-07:3, the node and the index of the GPU, or the slot's id"
		return uuid.UUID{}, f
	}
	got, err := client.Send[oapi.Node](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetAdminNode(ctx, name) })
	if err != nil {
		return uuid.UUID{}, err
	}
	for _, g := range output.ValueOrZero(got.Value.Gpus) {
		if fmt.Sprint(g.Index) == index && g.SlotId != nil {
			return *g.SlotId, nil
		}
	}
	return uuid.UUID{}, output.UsageError("%s has no slot of GPU %s", name, index)
}

func slotTable(_ *output.Console, all ...oapi.Slot) output.Table {
	t := output.Table{Head: []string{"NODE", "GPU", "STATUS", "REASON", "HOLDER"}, Wide: []string{"SKU", "REGION", "ID"}}
	for _, s := range all {
		holder := "-"
		if s.AllocationId != nil {
			holder = s.AllocationId.String()
		}
		if len(output.ValueOrZero(s.InspectedBy)) > 0 {
			s.Reason = "inspected by one operator; a second one must confirm"
		}
		t.Add("slot/"+s.Id.String(), s.Node, s.Gpu, string(s.Status), output.OrDash(s.Reason), holder, s.Sku, s.Region, s.Id.String())
	}
	return t
}

func newNodeQuarantine(a *output.Console) *cobra.Command {
	return onSlot(a, &cobra.Command{
		Use: "quarantine NODE:GPU|SLOT", Short: "Quarantine a slot", Example: "  gpuaas node quarantine gpu-07:3 --reason \"ECC errors\"",
	}, func(c *client.Client, id uuid.UUID, reason string) client.Sending {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.QuarantineSlot(ctx, id, nil, oapi.Reason{Reason: reason}, once)
		}
	})
}

func newNodeClear(a *output.Console) *cobra.Command {
	var inspected bool
	cmd := &cobra.Command{
		Use: "clear NODE:GPU|SLOT", Short: "Clear a slot quarantine",
		Long: `Returns a quarantined slot to sale, if its node has proved it clean. With --inspected the
slot needs no proof: you state that no data of the last tenant is left on the GPU and the
node. A second operator must state the same, unless node.inspection_approvals is 1.`,
		Example: "  gpuaas node clear gpu-07:3 --reason \"replaced and tested\"\n  gpuaas node clear gpu-07:3 --inspected --reason \"disk wiped, GPU replaced\"",
	}
	cmd.Flags().BoolVar(&inspected, "inspected", false, "free the slot without a proof, after an inspection")
	return onSlot(a, cmd, func(c *client.Client, id uuid.UUID, reason string) client.Sending {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ClearSlot(ctx, id, nil, oapi.SlotClear{Reason: reason, Inspected: output.PointerOrNil(inspected)}, once)
		}
	})
}

func newNodeAccept(a *output.Console) *cobra.Command {
	var fingerprint, reason string
	cmd := &cobra.Command{
		Use: "accept NODE", Short: "Accept changed node hardware", Long: "Accepts the changed hardware of a node, and removes the hold. \"gpuaas describe node/NODE\" prints the difference and the fingerprint.",
	}
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "fingerprint of the reported hardware, or its first characters; required")
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	_ = cmd.MarkFlagRequired("fingerprint")
	_ = cmd.MarkFlagRequired("reason")
	return onNode(a, cmd, func(c *client.Client, name string) (client.Sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.AcceptNodeHardware(ctx, name, nil, oapi.AcceptHardware{Fingerprint: fingerprint, Reason: reason}, once)
		}, nil
	})
}

func newNodeHealth(a *output.Console) *cobra.Command {
	var gpu, reason, span string
	cmd := &cobra.Command{
		Use: "health NODE LEVEL", Short: "Override node health", Args: cobra.ExactArgs(2),
		Long:    "LEVEL is healthy, degraded or unhealthy. unknown removes the override.",
		Example: "  gpuaas node health gpu-07 unhealthy --reason \"coolant leak\" --for 1d",
	}
	cmd.Flags().StringVar(&gpu, "gpu", "", "UUID of one GPU; the node when left out")
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	cmd.Flags().StringVar(&span, "for", "", "for how long, like 2h or 7d")
	_ = cmd.MarkFlagRequired("reason")
	return client.ChangeCommand(a, cmd, func(_ context.Context, c *client.Client, args []string) (client.Sending, error) {
		until, err := endOf(a, span, "--for")
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.OverrideNodeHealth(ctx, nodeNamed(args[0]), nil, oapi.HealthOverride{
				Level: oapi.HealthOverrideLevel(args[1]), Target: output.PointerOrNil(gpu), Reason: reason, Until: until,
			}, once)
		}, err
	}, heldTable)
}
