package backup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/record"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/platform/restore"
)

func newVerify(a *output.Console) *cobra.Command {
	var f flags
	var dir string
	var store bool
	c := &cobra.Command{
		Use: "verify ID", Short: "Verify a backup by a restore", Args: cobra.ExactArgs(1),
		Example: "  gpuaas backup verify 20261129t104740z-d01092cb --target file:///backups --identity backup-operator.key",
		Long: `Restores the backup into a temporary folder, verifies its files with pg_verifybackup, starts it on a private
socket, and compares the rows of each table, the seals of the ledger and those of the audit log with
the manifest. It removes the folder. The command ends with 1 if something differs. With --record the
result is stored in the database of DATABASE_URL, where the servers read it for metrics and alerts.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.service(a)
			if err != nil {
				return err
			}
			operator, err := f.operator(a)
			if err != nil {
				return err
			}
			v, err := s.Verify(cmd.Context(), args[0], dir, operator)
			if store {
				err = errors.Join(err, recordVerified(cmd.Context(), a, s, args[0], operator.Verifier, len(v.Faults)+countOf(err)))
			}
			if err != nil {
				return err
			}
			return showVerified(a, v)
		},
	}
	f.addTarget(c)
	f.addIdentity(c)
	c.Flags().BoolVar(&store, "record", false, "store the result in the database of DATABASE_URL")
	c.Flags().StringVar(&dir, "dir", "", "folder for the temporary folder; default: that of the system")
	return c
}

// countOf counts an error as a fault.
func countOf(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

func recordVerified(ctx context.Context, a *output.Console, s *backup.Service, id string, v seal.Verifier, faults int) error {
	m, err := s.Manifest(ctx, id, v)
	if err != nil {
		return nil // Verify has returned the error
	}
	db, err := client.Database(ctx, a, "gpuaas-backup")
	if err != nil {
		return err
	}
	defer db.Close()
	return (&record.Service{DB: db}).Verified(ctx, m, faults)
}

func showVerified(a *output.Console, v backup.Verified) error {
	document, err := output.Encode(v)
	if err != nil {
		return err
	}
	status := output.SymbolGood + " whole"
	if len(v.Faults) > 0 {
		status = output.SymbolBad + " not valid"
	}
	t := output.Table{Head: []string{"ID", "TABLES", "ROWS", "STATUS"}}
	t.Add("backup/"+v.ID, v.ID, fmt.Sprint(v.Tables), fmt.Sprint(v.Rows), status)
	if err := a.Show(document, t); err != nil || len(v.Faults) == 0 {
		return err
	}
	for _, fault := range v.Faults {
		a.Notify("%s %s", output.SymbolBad, fault)
	}
	return &output.CommandError{Message: v.Faults[0], Code: output.CodeFindings, Try: "make a backup now, and use an older one until then", Correlation: a.Correlation, Exit: output.ExitFailure}
}

type restoreFlags struct {
	flags

	to, at, position, environment, rename string
	timeline                              uint
}

func newRestore(a *output.Console) *cobra.Command {
	var f restoreFlags
	c := &cobra.Command{
		Use: "restore ID", Short: "Restore a database to a folder", Args: cobra.ExactArgs(1),
		Example: "  gpuaas backup restore 20261129t104740z-d01092cb --to /restored --at 2026-11-29T10:50:00Z --target file:///backups --identity backup-operator.key",
		Long: `Restores the backup and the WAL after it into a new folder, up to a time, a position, or the end of the archive,
marks it as gpuaas restore begin does, and leaves a stopped PostgreSQL there. Its servers start in restore mode
and change nothing until gpuaas restore confirm. The command also updates the schema, and ends all sessions.
No data directory is left if it fails. It changes no other database. With --rename the copy does not archive.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.service(a)
			if err != nil {
				return err
			}
			config, err := f.config(a, args[0])
			if err != nil {
				return err
			}
			r, err := s.Restore(cmd.Context(), config)
			if err != nil {
				return err
			}
			return showRestored(a, r)
		},
	}
	f.addTarget(c)
	f.addIdentity(c)
	c.Flags().StringVar(&f.to, "to", "", "new folder for the database")
	c.Flags().StringVar(&f.at, "at", "", "time up to which transactions are restored, such as 2026-11-29T10:50:00Z")
	c.Flags().StringVar(&f.position, "lsn", "", "position in the WAL up to which it is restored, such as 16/B374D848")
	c.Flags().UintVar(&f.timeline, "timeline", 0, "timeline to follow; default: the latest")
	c.Flags().StringVar(&f.environment, "environment", "", "environment of the restored database; a backup of another one is rejected")
	c.Flags().StringVar(&f.rename, "rename", "", "environment of the restored database, also if the backup is of another one")
	_ = c.MarkFlagRequired("to")
	c.MarkFlagsMutuallyExclusive("at", "lsn")
	c.MarkFlagsMutuallyExclusive("environment", "rename")
	return c
}

func (f *restoreFlags) config(a *output.Console, id string) (c backup.RestoreConfig, err error) {
	c = backup.RestoreConfig{ID: id, Dir: f.to, Environment: f.environment + f.rename, Rename: f.rename != "", Mark: mark}
	if c.Operator, err = f.operator(a); err != nil {
		return c, err
	}
	if f.at != "" {
		if c.Point.At, err = time.Parse(time.RFC3339Nano, f.at); err != nil {
			return c, errs.Invalid("at", "%q is not a time such as 2026-11-29T10:50:00Z", f.at)
		}
		if c.Point.At.After(a.Clock.Now()) {
			return c, errs.Invalid("at", "%s is in the future", f.at)
		}
	}
	if f.position != "" {
		if c.Point.LSN, err = lsn.Parse(f.position); err != nil {
			return c, err
		}
	}
	if f.timeline > math.MaxUint32 {
		return c, errs.Invalid("timeline", "%d is not a timeline", f.timeline)
	}
	c.Point.Timeline = uint32(f.timeline)
	return c, nil
}

// mark marks the database as gpuaas restore begin does. A clock that was set back can make the last commit older than an
// audit row: the point is then that of the audit row.
func mark(ctx context.Context, db *pgxpool.Pool, id string, to time.Time) error {
	if err := migrations.Up(ctx, db); err != nil {
		return err
	}
	newest, err := audit.Newest(ctx, db, nil)
	if err != nil {
		return err
	}
	if to.Before(newest) {
		to = newest
	}
	_, err = restore.Begin(ctx, db, restore.Point{At: to, Backup: id, By: client.Actor()})
	return err
}

func showRestored(a *output.Console, r backup.Restored) error {
	document, err := output.Encode(r)
	if err != nil {
		return err
	}
	last := "-"
	if r.LastAt != nil {
		last = output.FormatTime(r.LastAt.UTC())
	}
	t := output.Table{Head: []string{"DATA DIRECTORY", "LAST COMMIT", "POSITION", "TIMELINE"}}
	t.Add("backup/"+r.ID, r.Data, last, r.Position.String(), fmt.Sprint(r.Timeline))
	if err := a.Show(document, t); err != nil {
		return err
	}
	if r.Unconfigured {
		a.Notify("%s The backup has no postgresql.conf: the server has it outside of its data directory, as /etc/postgresql on Debian and Ubuntu. Copy that folder from the original computer, or write a new configuration.", output.SymbolWarn)
	}
	if r.ArchiveOff {
		a.Notify("%s The copy does not archive: postgresql.auto.conf has archive_mode = 'off'. Remove the line when archive_command has a target of its own.", output.SymbolWarn)
	}
	a.Notify("PostgreSQL is stopped. Start it with this data directory, and then the servers.")
	a.Notify("The servers start in restore mode: gpuaas restore status displays what differs from reality, gpuaas restore confirm ends it.")
	return nil
}
