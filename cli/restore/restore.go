// Package restore contains the commands for a restored database.
package restore

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/restore"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/recovery"
)

// ownerText ends the description of each command.
const ownerText = `

The command uses the login of the owner of the database: DATABASE_URL, or else the profile of
gpuaas up.`

// NewRestore returns the group restore.
func NewRestore(a *output.Console) *cobra.Command {
	return output.Group("restore", "Manage a restored database", newBegin(a), newStatus(a), newConfirm(a))
}

func newBegin(a *output.Console) *cobra.Command {
	var at, backup string
	var replace bool
	cmd := &cobra.Command{
		Use: "begin", Short: "Mark the database as restored", Args: cobra.NoArgs,
		Example: "  gpuaas restore begin --at 2026-11-29T10:15:00Z",
		Long: `Marks a database that was restored to an earlier time, from a snapshot of a provider or a dump.
Stop all servers before the restore, and run this command before the first of them starts.
Servers then change nothing, and receive reports of nodes, until gpuaas restore confirm. All
sessions end. The command also updates the schema. It needs DATABASE_URL, with the login of the
owner of the database. --replace corrects a wrong time before the confirmation.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at == "" {
				return output.UsageError("set --at to the time that the database was restored to")
			}
			if a.Env("DATABASE_URL") == "" && a.Env("DATABASE_URL_FILE") == "" {
				return output.UsageError("set DATABASE_URL: the database of gpuaas up runs only with its server, which must be stopped")
			}
			point, err := a.ParseTime("--at", at)
			if err != nil {
				return err
			}
			return begin(cmd.Context(), a, restore.Point{At: *point, Backup: backup, By: client.Actor(), Replace: replace})
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "time that the database was restored to, such as 2026-11-29T10:15:00Z")
	cmd.Flags().StringVar(&backup, "backup", "", "id of the backup")
	cmd.Flags().BoolVar(&replace, "replace", false, "correct the time of a restore that is not confirmed")
	return cmd
}

func begin(ctx context.Context, a *output.Console, p restore.Point) error {
	db, err := client.Database(ctx, a, "gpuaas-restore")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := migrations.Up(ctx, db); err != nil {
		return err
	}
	r, err := restore.Begin(ctx, db, p)
	if err != nil {
		return err
	}
	a.Notify("%s The database is marked as restored to %s. All sessions have ended.", output.SymbolGood, output.FormatTime(r.RestoredTo))
	a.Notify("Next: start the servers. When the nodes have reported: gpuaas restore status")
	return show(a, recovery.State{InProgress: &r, Nodes: []restore.Node{}, Differences: []restore.Difference{}}, recovery.Survey{})
}

func newStatus(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show what differs from the restored database", Args: cobra.NoArgs,
		Long: `Compares the restored database with what nodes have reported since the restore began.` + ownerText,
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := client.Database(cmd.Context(), a, "gpuaas-restore")
			if err != nil {
				return err
			}
			defer db.Close()
			st, err := service(db).State(cmd.Context())
			if err != nil {
				return err
			}
			return display(a, st)
		},
	}
}

func explain(a *output.Console, st recovery.State, foreign recovery.Survey) {
	switch {
	case st.InProgress != nil:
		silent := st.Silent()
		a.Notify("The database was restored to %s and is not confirmed. The servers change nothing.", output.FormatTime(st.InProgress.RestoredTo))
		a.Notify("%d of %s have reported; %s.", len(st.Nodes)-len(silent), output.CountOf(len(st.Nodes), "node"), output.CountOf(len(st.Differences), "difference"))
		if len(silent) > 0 {
			a.Notify("Not yet: %s", strings.Join(silent, ", "))
		}
		explainForeign(a, foreign)
		a.Notify("E-mails and webhooks that were sent from %s to %s are not known.", output.FormatTime(st.InProgress.RestoredTo), output.FormatTime(st.InProgress.BeganAt))
	case st.Last != nil:
		a.Notify("The last restore, to %s, is confirmed.", output.FormatTime(st.Last.RestoredTo))
	default:
		a.Notify("The database was never restored.")
	}
}

func explainForeign(a *output.Console, foreign recovery.Survey) {
	switch p := foreign.Payments; {
	case p == nil:
		a.Notify("No server has queried the payment provider.")
	case p.Error != "":
		a.Notify("The payment provider cannot be queried: %s", output.CellText(p.Error))
	default:
		a.Notify("The payment provider has %s that the database does not know; the sweep reads them after the confirmation.", output.CountOf(p.Count, "payment"))
	}
	if s := foreign.Streams; s != nil && s.Error != "" {
		a.Notify("The streams of events cannot be read: %s", output.CellText(s.Error))
	}
}

// display prints the differences, and what the foreign systems have reported.
func display(a *output.Console, st recovery.State) error {
	foreign, err := st.Survey()
	if err != nil {
		return err
	}
	explain(a, st, foreign)
	return show(a, st, foreign)
}

func show(a *output.Console, st recovery.State, foreign recovery.Survey) error {
	document, err := output.Encode(st)
	if err != nil {
		return err
	}
	t := output.Table{Head: []string{"DIFFERENCE", "NODE", "ALLOCATION", "DATABASE", "REPORTED", "FENCE", "REPORTED FENCE"}}
	for _, d := range st.Differences {
		id := "-"
		if d.Allocation != nil {
			id = d.Allocation.String()
		}
		t.Add(d.Kind, d.Kind, output.CellText(d.Node), id, output.OrDash(d.Status), output.OrDash(output.CellText(d.Phase)),
			strconv.FormatInt(d.StoredFence, 10), strconv.FormatInt(d.Fence, 10))
	}
	if foreign.Payments != nil {
		for _, p := range foreign.Payments.Payments {
			kind := "unknown_payment"
			if p.SessionLost {
				kind = "payment_without_session"
			}
			t.Add(kind, kind, "-", "-", "-", output.CellText(p.Payment)+" "+output.ParseAmount(p.Currency, int64(p.AmountMinor)), "-", "-")
		}
	}
	if foreign.Streams != nil {
		for _, s := range foreign.Streams.Ahead {
			t.Add("stream_ahead", "stream_ahead", "-", "-", s.Stream+" "+strconv.FormatInt(s.Recorded, 10), s.Stream+" "+strconv.FormatUint(s.Last, 10), "-", "-")
		}
	}
	return a.Show(document, t)
}

func newConfirm(a *output.Console) *cobra.Command {
	var yes bool
	var without []string
	cmd := &cobra.Command{
		Use: "confirm", Short: "Resume the servers after a restore", Args: cobra.NoArgs,
		Long: `Shows the differences and what the confirmation does, and prompts. In one transaction it raises the
fences above those that nodes report, releases allocations that their nodes have released, puts
an operator hold on nodes with allocations that the database does not know, removes jobs that
the control loop derives again, and pauses all automatic top-ups until their tenants resume
them: the database has lost charges. It destroys nothing. Servers continue within a second.

A node that has not reported must be named with --without-nodes. It gets an operator hold, too.` + ownerText,
		Example: "  gpuaas restore confirm\n  gpuaas restore confirm --without-nodes gpu-07 --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := client.Database(cmd.Context(), a, "gpuaas-restore")
			if err != nil {
				return err
			}
			defer db.Close()
			return confirm(cmd.Context(), a, service(db), recovery.Confirmation{By: client.Actor(), WithoutNodes: without}, yes)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "confirm without a prompt")
	cmd.Flags().StringSliceVar(&without, "without-nodes", nil, "nodes that are not waited for")
	return cmd
}

func confirm(ctx context.Context, a *output.Console, s *recovery.Service, c recovery.Confirmation, yes bool) error {
	st, err := s.State(ctx)
	if err != nil {
		return err
	}
	if st.InProgress != nil {
		if err := display(a, st); err != nil {
			return err
		}
		e := st.Effects()
		a.Notify("The confirmation raises %s, releases %s, records %s, puts an operator hold on %s, and pauses all automatic top-ups.", output.CountOf(e.Fences, "fence"),
			output.CountOf(e.Releases, "allocation"), output.CountOf(e.Unknown, "unknown allocation"), output.CountOf(e.Cordons, "node"))
		if err := agree(ctx, a, yes); err != nil {
			return err
		}
		if !yes {
			c.Agreed = st.Digest()
		}
	}
	done, err := s.Confirm(ctx, c)
	if err != nil {
		return err
	}
	if done.Already {
		a.Notify("The restore to %s was confirmed before.", output.FormatTime(done.Restore.RestoredTo))
		return nil
	}
	a.Notify("%s Confirmed: %s raised, %s released, %s found, %s without new allocations.", output.SymbolGood, output.CountOf(done.Fences, "fence"),
		output.CountOf(len(done.Released), "allocation"), output.CountOf(len(done.Unknown), "unknown allocation"), output.CountOf(len(done.Cordoned), "node"))
	if done.Paused > 0 {
		a.Notify("%s paused. A tenant resumes its own: gpuaas balance auto-topup resume ID", output.CountOf(done.Paused, "automatic top-up"))
	}
	if len(done.Cordoned) > 0 {
		a.Notify("Next: inspect %s, then gpuaas node uncordon NODE --force", strings.Join(done.Cordoned, ", "))
	}
	return nil
}

func agree(ctx context.Context, a *output.Console, yes bool) error {
	if yes {
		return nil
	}
	if err := a.RequireConfirmation(yes, "the servers continue"); err != nil {
		return err
	}
	return a.Confirm(ctx, "The servers continue with this database, and unknown allocations stay on their nodes. Confirm?", "the restore is not confirmed")
}

func service(db *pgxpool.Pool) *recovery.Service {
	hints := &hint.Bus{}
	return &recovery.Service{DB: db, Allocations: &allocation.Service{DB: db, Desired: &desired.Store{DB: db, Hints: hints}, Naming: ids.DefaultNaming, Hints: hints}}
}
