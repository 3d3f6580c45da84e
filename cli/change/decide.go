package change

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const applyText = `Applies a plan in one transaction, exactly as it was displayed. For files the command first
creates the plan, for objects that the API owns. If the plan has changed since it was
created, the server rejects it and returns the differences. A plan of a commit is applied
by merging the commit.`

func NewApply(a *output.Console) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "apply PLAN|DIR|FILE…", Short: "Apply a plan or files", Long: applyText, Args: cobra.MinimumNArgs(1),
		Example: "  gpuaas apply maintenance.yaml\n  gpuaas apply plan/01990f41-… --yes",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.RequireConfirmation(yes, "apply"); err != nil {
				return err
			}
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			p, err := proposed(cmd.Context(), a, c, args)
			if err != nil {
				return err
			}
			return apply(cmd.Context(), a, c, p, yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not prompt")
	return cmd
}

// proposed returns the plan of the given id, or creates one from the given files.
func proposed(ctx context.Context, a *output.Console, c *client.Client, args []string) (planned, error) {
	if _, isPlan := client.PlanRef(args[0]); isPlan && len(args) == 1 && !exists(args[0]) {
		got, err := PlanNamed(ctx, c, args[0])
		if err != nil {
			return planned{}, err
		}
		return plannedFrom(got)
	}
	p, err := (&proposal{}).plan(ctx, c, args)
	if wrong, ok := errors.AsType[*invalidFilesError](err); ok {
		return planned{}, places(a, wrong)
	}
	return p, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func apply(ctx context.Context, a *output.Console, c *client.Client, p planned, yes bool) error {
	switch {
	case len(p.change.Findings) > 0:
		return showProposed(a, p, false)
	case p.change.Empty():
		a.Notify("Nothing to do: desired state is equal.")
		return showDecided(a, p.Response)
	}
	if err := read(ctx, a, p, yes, "Apply this plan?", "nothing was changed"); err != nil {
		return err
	}
	got, err := client.Change[oapi.PlanDetail](ctx, c, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return c.ApplyPlan(ctx, p.Value.Id, nil, oapi.ApplyRequest{Hash: &p.Value.Hash}, once)
	})
	if err != nil {
		return moved(a, err, p)
	}
	return showDecided(a, got)
}

// read prints the plan and lets the user decide.
func read(ctx context.Context, a *output.Console, p planned, yes bool, question, declined string) error {
	if err := p.change.Text(a.Err); err != nil {
		return fmt.Errorf("showing the plan: %w", err)
	}
	if yes {
		return nil
	}
	return a.Confirm(ctx, question, declined)
}

func showDecided(a *output.Console, got client.Response[oapi.PlanDetail]) error {
	return a.Show(got.Raw, planTable(a.Clock.Now(), []oapi.Plan{briefly(got.Value)}))
}

// moved explains an error about a stale plan.
func moved(a *output.Console, err error, p planned) error {
	f, ok := errors.AsType[*output.CommandError](err)
	if !ok {
		return err
	}
	again := *f
	switch errs.Code(f.Code) { //nolint:exhaustive // the refusals of a plan that have words of their own
	case errs.PlanStale:
		list, _ := f.Details["moved"].([]any)
		for _, line := range list {
			a.Notify("%s %s", output.SymbolWarn, output.CellText(fmt.Sprint(line)))
		}
		again.Try = "create and read a new plan: gpuaas plan"
	case errs.ApprovalRequired:
		again.Try = "another operator runs: gpuaas approve plan/" + p.Value.Id.String()
	}
	return &again
}

// verdictOn is a reviewer's decision about a change: the question, and the request.
type verdictOn struct {
	question, declined string
	send               func(c *client.Client, p planned, d oapi.Decision) client.Sending
}

// decides completes a command that decides about a revision that waits, or about a plan.
func decides(a *output.Console, cmd *cobra.Command, v verdictOn) *cobra.Command {
	var reason string
	var yes bool
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.RequireConfirmation(yes, cmd.Name()); err != nil {
			return err
		}
		c, err := client.Connect(a)
		if err != nil {
			return err
		}
		p, err := undecided(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		if err := read(cmd.Context(), a, p, yes, v.question, v.declined); err != nil {
			return err
		}
		got, err := client.Change[oapi.PlanDetail](cmd.Context(), c, v.send(c, p, oapi.Decision{Hash: &p.Value.Hash, Reason: output.PointerOrNil(reason)}))
		if err != nil {
			return moved(a, err, p)
		}
		if have, needed := len(output.ValueOrZero(got.Value.Approvals)), output.ValueOrZero(got.Value.ApprovalsNeeded); got.Value.Status == oapi.PlanDetailStatusProposed && have < needed {
			a.Notify("%s %d of %d approvals: another operator must approve it, too", output.SymbolWarn, have, needed)
		}
		return showDecided(a, got)
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not prompt")
	return cmd
}

// undecided is the plan behind what a person names: a revision's number, or a plan.
func undecided(ctx context.Context, c *client.Client, ref string) (planned, error) {
	number := strings.TrimPrefix(ref, "revision/")
	if _, err := strconv.ParseInt(number, 10, 64); err != nil {
		got, err := PlanNamed(ctx, c, ref)
		if err != nil {
			return planned{}, err
		}
		return plannedFrom(got)
	}
	r, err := Revision(ctx, c, number)
	if err != nil {
		return planned{}, err
	}
	if r.Value.PlanId == nil {
		return planned{}, errs.New(errs.Conflict, "revision %d is %s and needs no approval", r.Value.Revision, r.Value.Status).Try("gpuaas describe revision/%d", r.Value.Revision)
	}
	got, err := Plan(ctx, c, *r.Value.PlanId)
	if err != nil {
		return planned{}, err
	}
	return plannedFrom(got)
}

const approveText = `Approves a waiting change. A change waits because it removes many objects, because live
allocations depend on the removed objects, or because it changes approval rules, sign-in, sources,
rights or prices. The author, committer, signer and pusher of a change cannot approve it. If neither a
signature nor the forge identifies one of them, two users must approve it.
The command displays the plan first, and approves only this plan. If the plan has changed,
the server rejects the approval and returns the differences.`

func NewApprove(a *output.Console) *cobra.Command {
	return decides(a, &cobra.Command{
		Use: "approve REVISION|PLAN", Short: "Approve a waiting plan", Long: approveText, Example: "  gpuaas approve 12\n  gpuaas approve plan/01990f41-… --reason \"read it with Ada\"",
	}, verdictOn{
		question: "Approve this change?", declined: "nothing was approved",
		send: func(c *client.Client, p planned, d oapi.Decision) client.Sending {
			return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.ApprovePlan(ctx, p.Value.Id, nil, d, once)
			}
		},
	})
}

func NewReject(a *output.Console) *cobra.Command {
	return decides(a, &cobra.Command{
		Use: "reject REVISION|PLAN", Short: "Reject a waiting plan", Example: "  gpuaas reject 12 --reason \"not before the weekend\"",
	}, verdictOn{
		question: "Reject this change?", declined: "nothing was rejected",
		send: func(c *client.Client, p planned, d oapi.Decision) client.Sending {
			return func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
				return c.RejectPlan(ctx, p.Value.Id, nil, d, once)
			}
		},
	})
}
