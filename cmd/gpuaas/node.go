package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

const nodeText = `A node is declared, enrols with a token of its own, and is then sold. Whatever takes
it off the market is a hold with an owner, a reason and, where it has one, an end:
several may stand at once, and only who set one lifts it.`

func newNode(a *app) *cobra.Command {
	cmd := group("node", "Machines: bring them in, hold them, drain them, take them out",
		newNodeAdd(a), newNodeList(a), newNodeCordon(a), newNodeUncordon(a), newNodeDrain(a), newNodeProbe(a), newNodeUpdate(a), newNodeRetire(a),
		newNodeEnrol(a), newNodeRevoke(a), newNodeQuarantine(a), newNodeClear(a), newNodeAccept(a), newNodeHealth(a))
	cmd.Long = nodeText
	cmd.Example = "  gpuaas node drain gpu-07 --reason \"board swap\" --wait\n  gpuaas node uncordon gpu-07"
	return cmd
}

func newNodeList(a *app) *cobra.Command {
	cmd := newGetNodes(a)
	cmd.Use, cmd.Aliases = "list", []string{"ls"}
	return cmd
}

// onNode completes a command that changes one node and shows how it stands then.
func onNode(a *app, cmd *cobra.Command, send func(c *client, name string) (sending, error)) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	return makes(a, cmd, func(_ context.Context, c *client, args []string) (sending, error) { return send(c, nodeNamed(args[0])) }, heldTable)
}

func nodeNamed(ref string) string { return strings.TrimPrefix(ref, "node/") }

// heldTable is a node as a verb leaves it: how it stands, and what holds it.
func heldTable(a *app, all ...oapi.Node) table {
	t := table{head: []string{"NAME", "STATUS", "HEALTH", "REACHABLE", "FREE", "HELD BY", "UNTIL", "REASON"}}
	for _, n := range all {
		by, until, why := "-", "-", "-"
		if holds := deref(n.Holds); len(holds) > 0 {
			h := holds[0]
			by, why = string(h.Kind)+" of "+ownerOf(h), h.Reason
			if h.Deadline != nil {
				until = stamp(*h.Deadline)
			}
			if more := len(holds) - 1; more > 0 {
				why += fmt.Sprintf(" (and %d more)", more)
			}
		}
		t.add("node/"+n.Name, n.Name, nodeStatus(n), string(n.Health), string(n.Reachability), fmt.Sprintf("%d/%d", n.Free, n.Slots), by, until, cell(why))
	}
	return t
}

func ownerOf(h oapi.Hold) string {
	if h.OwnerName != nil {
		return *h.OwnerName
	}
	if h.Owner == "system" {
		return "the platform"
	}
	return h.Owner
}

// nodeStatus is the lifecycle, and what keeps a node unsold beside it.
func nodeStatus(n oapi.Node) string {
	status := string(n.Lifecycle)
	if n.Cordoned && n.Lifecycle != oapi.NodeLifecycleDraining && n.Lifecycle != oapi.NodeLifecycleDrained {
		status += ",cordoned"
	}
	return status
}

func newNodeCordon(a *app) *cobra.Command {
	var reason, span string
	cmd := &cobra.Command{Use: "cordon NODE", Short: "Place nothing new on a machine; what stands on it stays", Example: "  gpuaas node cordon gpu-07 --reason \"fans are loud\" --for 2h"}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it; required")
	cmd.Flags().StringVar(&span, "for", "", "for how long, like 2h or 7d; until it is lifted when left out")
	_ = cmd.MarkFlagRequired("reason")
	return onNode(a, cmd, func(c *client, name string) (sending, error) {
		until, err := a.endOf(span, "--for")
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.CordonNode(ctx, name, nil, oapi.NodeCordon{Reason: reason, Until: until}, once)
		}, err
	})
}

// endOf is the end of a length of time that begins now; nil for none.
func (a *app) endOf(span, flag string) (*time.Time, error) {
	if span == "" {
		return nil, nil //nolint:nilnil // no end was asked for
	}
	d, err := parseSpan(span)
	if err != nil {
		return nil, usage("%s: %v", flag, err)
	}
	end := a.Clock.Now().Add(d).UTC().Truncate(time.Second)
	return &end, nil
}

func newNodeUncordon(a *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "uncordon NODE", Aliases: []string{"undrain"}, Short: "Lift your cordons and drains of a machine",
		Example: "  gpuaas node uncordon gpu-07\n  gpuaas node uncordon gpu-07 --force   # also what others hold; for admins",
	}
	cmd.Flags().BoolVar(&force, "force", false, "lift what others hold, too; for admins")
	return onNode(a, cmd, func(c *client, name string) (sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.UncordonNode(ctx, name, nil, oapi.NodeUncordon{Force: set(force)}, once)
		}, nil
	})
}

func newNodeDrain(a *app) *cobra.Command {
	var reason, grace string
	var wait bool
	timeout := 2 * time.Hour
	cmd := &cobra.Command{
		Use: "drain NODE", Short: "Move work away: tenants are told, and released at the deadline", Args: cobra.ExactArgs(1),
		Example: "  gpuaas node drain gpu-07 --reason \"board swap\" --grace 30m --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			body := oapi.NodeDrain{Reason: reason}
			if cmd.Flags().Changed("grace") {
				d, err := parseSpan(grace)
				if err != nil {
					return usage("--grace: %v", err)
				}
				minutes := int(d / time.Minute)
				body.GraceMinutes = &minutes
			}
			name := nodeNamed(args[0])
			made, err := change[oapi.Node](cmd.Context(), c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.DrainNode(ctx, name, nil, body, once)
			})
			if err != nil {
				return err
			}
			if !wait {
				return a.show(made.Raw, heldTable(a, made.Value))
			}
			return a.awaitDrained(cmd.Context(), c, name, timeout)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&reason, "reason", "", "why, for the tenants and whoever finds it; required")
	flags.StringVar(&grace, "grace", "", "how long tenants may stay, like 30m or 0m; by policy when left out")
	flags.BoolVar(&wait, "wait", false, "wait until nobody stands on it")
	flags.DurationVar(&timeout, "timeout", timeout, "how long to wait")
	_ = cmd.MarkFlagRequired("reason")
	return cmd
}

// drainLook is how often a drain is looked at: it goes on by itself.
const drainLook = time.Second

// awaitDrained says how many are left until nobody is.
func (a *app) awaitDrained(ctx context.Context, c *client, name string, timeout time.Duration) error {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := ""
	for {
		got, err := ask[oapi.Node](within, c, func(ctx context.Context) (*http.Response, error) { return c.GetAdminNode(ctx, name) })
		switch {
		case ctx.Err() != nil:
			return &failure{Message: name + " drains on; only the waiting was stopped", Code: codeInterrupted, Try: "gpuaas describe node/" + name, Correlation: c.correlation, Exit: exitInterrupted}
		case within.Err() != nil:
			return &failure{Message: fmt.Sprintf("%s is not drained after %s", name, timeout), Code: codeTimeout, Try: "gpuaas describe node/" + name, Correlation: c.correlation, Exit: exitTimeout}
		case err != nil:
			return err
		}
		n := got.Value
		if n.Lifecycle == oapi.NodeLifecycleDrained {
			a.say("%s %s is drained", symbolGood, name)
			return a.show(got.Raw, heldTable(a, n))
		}
		if n.LeavesBy == nil {
			return &failure{Message: name + " does not drain any more: somebody has called it off", Code: codeDeclined, Try: "gpuaas describe node/" + name, Exit: exitFailure}
		}
		if now := a.drainWaits(n); now != last {
			a.say("%s %s", symbolBusy, now)
			last = now
		}
		if err := sleep(within, drainLook); err != nil {
			continue // which of the two is over is said above
		}
	}
}

// drainWaits says what a drain waits for.
func (a *app) drainWaits(n oapi.Node) string {
	switch {
	case deref(n.Held) == 0:
		return n.Name + " is about to be drained"
	case n.Reachability != oapi.NodeReachabilityReachable:
		return fmt.Sprintf("%s is silent: %d slots wait for its proof", n.Name, deref(n.Held))
	}
	return fmt.Sprintf("%s: %d slots are held; tenants leave by %s", n.Name, deref(n.Held), stamp(deref(n.LeavesBy)))
}

func newNodeProbe(a *app) *cobra.Command {
	return onNode(a, &cobra.Command{Use: "probe NODE", Short: "Ask a machine how it is, and wait for the answer"}, func(c *client, name string) (sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ProbeNode(ctx, name, nil, oapi.Nothing{}, once)
		}, nil
	})
}

func newNodeRetire(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "retire NODE", Short: "Take a machine out of the fleet; drain it first", Args: cobra.ExactArgs(1)}
	return ends(a, cmd, func(_ context.Context, c *client, args []string) (end, error) {
		name := nodeNamed(args[0])
		return end{name: name, what: name + " leaves the fleet", send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.RetireNode(ctx, name, nil, once)
		}}, nil
	})
}

func newNodeRevoke(a *app) *cobra.Command {
	var reason string
	cmd := &cobra.Command{Use: "revoke NODE", Short: "End a machine's certificates: it is believed no more until it is enrolled anew", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it; required")
	_ = cmd.MarkFlagRequired("reason")
	return ends(a, cmd, func(_ context.Context, c *client, args []string) (end, error) {
		name := nodeNamed(args[0])
		return end{name: name, what: name + " is believed no more", send: func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.RevokeNode(ctx, name, nil, oapi.Reason{Reason: reason}, once)
		}}, nil
	})
}

// onSlot completes a command about one slot, which is named by its node and the
// index of its GPU, or by its id.
func onSlot(a *app, cmd *cobra.Command, send func(c *client, id uuid.UUID, reason string) sending) *cobra.Command {
	var reason string
	cmd.Args = cobra.ExactArgs(1)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it; required")
	_ = cmd.MarkFlagRequired("reason")
	return makes(a, cmd, func(ctx context.Context, c *client, args []string) (sending, error) {
		id, err := c.slotOf(ctx, args[0])
		return send(c, id, reason), err
	}, slotTable)
}

func (c *client) slotOf(ctx context.Context, ref string) (uuid.UUID, error) {
	if id, err := uuid.Parse(strings.TrimPrefix(ref, "slot/")); err == nil {
		return id, nil
	}
	name, index, found := strings.Cut(nodeNamed(ref), ":")
	if !found {
		f := usage("%q names no slot", ref)
		f.Try = "like gpu-07:3, the node and the index of the GPU, or the slot's id"
		return uuid.UUID{}, f
	}
	got, err := ask[oapi.Node](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetAdminNode(ctx, name) })
	if err != nil {
		return uuid.UUID{}, err
	}
	for _, g := range deref(got.Value.Gpus) {
		if fmt.Sprint(g.Index) == index && g.SlotId != nil {
			return *g.SlotId, nil
		}
	}
	return uuid.UUID{}, usage("%s has no slot of GPU %s", name, index)
}

func slotTable(_ *app, all ...oapi.Slot) table {
	t := table{head: []string{"NODE", "GPU", "STATUS", "REASON", "HOLDER"}, wide: []string{"SKU", "REGION", "ID"}}
	for _, s := range all {
		holder := "-"
		if s.AllocationId != nil {
			holder = s.AllocationId.String()
		}
		t.add("slot/"+s.Id.String(), s.Node, s.Gpu, string(s.Status), orDash(s.Reason), holder, s.Sku, s.Region, s.Id.String())
	}
	return t
}

func newNodeQuarantine(a *app) *cobra.Command {
	return onSlot(a, &cobra.Command{
		Use: "quarantine NODE:GPU|SLOT", Short: "Keep one slot for inspection; whoever has it stays", Example: "  gpuaas node quarantine gpu-07:3 --reason \"ECC errors\"",
	}, func(c *client, id uuid.UUID, reason string) sending {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.QuarantineSlot(ctx, id, nil, oapi.Reason{Reason: reason}, once)
		}
	})
}

func newNodeClear(a *app) *cobra.Command {
	return onSlot(a, &cobra.Command{
		Use: "clear NODE:GPU|SLOT", Short: "Give a slot back to the market, where its last release was proved", Example: "  gpuaas node clear gpu-07:3 --reason \"replaced and burnt in\"",
	}, func(c *client, id uuid.UUID, reason string) sending {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.ClearSlot(ctx, id, nil, oapi.Reason{Reason: reason}, once)
		}
	})
}

func newNodeAccept(a *app) *cobra.Command {
	var fingerprint, reason string
	cmd := &cobra.Command{
		Use: "accept NODE", Short: "Accept the hardware that a machine reports now", Long: "Lifts the hold of a machine whose hardware has changed. \"gpuaas describe node/NODE\" says how, and the fingerprint to name.",
	}
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "of what you have looked at, or its beginning; required")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it; required")
	_ = cmd.MarkFlagRequired("fingerprint")
	_ = cmd.MarkFlagRequired("reason")
	return onNode(a, cmd, func(c *client, name string) (sending, error) {
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.AcceptNodeHardware(ctx, name, nil, oapi.AcceptHardware{Fingerprint: fingerprint, Reason: reason}, once)
		}, nil
	})
}

func newNodeHealth(a *app) *cobra.Command {
	var gpu, reason, span string
	cmd := &cobra.Command{
		Use: "health NODE LEVEL", Short: "Say how healthy a machine is, beside what it reports", Args: cobra.ExactArgs(2),
		Long:    "LEVEL is healthy, degraded, unhealthy, or unknown to take your word back.",
		Example: "  gpuaas node health gpu-07 unhealthy --reason \"coolant leak\" --for 1d",
	}
	cmd.Flags().StringVar(&gpu, "gpu", "", "UUID of one GPU; the node when left out")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it; required")
	cmd.Flags().StringVar(&span, "for", "", "for how long, like 2h or 7d")
	_ = cmd.MarkFlagRequired("reason")
	return makes(a, cmd, func(_ context.Context, c *client, args []string) (sending, error) {
		until, err := a.endOf(span, "--for")
		return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
			return c.OverrideNodeHealth(ctx, nodeNamed(args[0]), nil, oapi.HealthOverride{
				Level: oapi.HealthOverrideLevel(args[1]), Target: set(gpu), Reason: reason, Until: until,
			}, once)
		}, err
	}, heldTable)
}
