package backup

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/record"
)

func newPrune(a *output.Console) *cobra.Command {
	var f flags
	var days int
	c := &cobra.Command{
		Use: "prune", Short: "Remove old backups", Args: cobra.NoArgs, Example: "  gpuaas backup prune --target file:///backups --key backup-server.key",
		Long: `Removes backups that are older than the policy backup.keep_days, the WAL that no backup needs, and files of
backups that were interrupted two days ago or earlier. The newest backup always stays. Nothing is removed
while a manifest cannot be verified.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := prune(cmd.Context(), a, &f, days)
			if err != nil {
				return err
			}
			document, err := output.Encode(p)
			if err != nil {
				return err
			}
			t := output.Table{Head: []string{"BACKUPS", "WAL FILES", "INTERRUPTED FILES"}}
			t.Add("backups/"+strings.Join(p.Backups, ","), strconv.Itoa(len(p.Backups)), strconv.Itoa(p.WAL), strconv.Itoa(p.Left))
			return a.Show(document, t)
		},
	}
	f.addTarget(c)
	f.addKey(c)
	c.Flags().IntVar(&days, "keep-days", 0, "days instead of the policy backup.keep_days")
	return c
}

// prune reads the policies of the database and removes its rows.
func prune(ctx context.Context, a *output.Console, f *flags, days int) (p backup.Pruned, err error) {
	if days < 0 {
		return p, errs.Invalid("keep-days", "%d is not a number of days", days)
	}
	s, err := f.service(a)
	if err != nil {
		return p, err
	}
	server, err := f.server(a)
	if err != nil {
		return p, err
	}
	db, err := client.Database(ctx, a, "gpuaas-backup")
	if err != nil {
		return p, err
	}
	defer db.Close()
	keep := time.Duration(days) * 24 * time.Hour
	if days == 0 {
		rules, err := rulesOf(ctx, db)
		if err != nil {
			return p, err
		}
		keep = rules.Keep
	}
	if p, err = s.Prune(ctx, server.Verifier(), keep); err != nil {
		return p, err
	}
	return p, (&record.Service{DB: db}).Removed(ctx, p.Backups)
}
