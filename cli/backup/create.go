package backup

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/record"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/policies"
)

// waitWAL is ten times archive_timeout as the guide sets it.
const waitWAL = 10 * time.Minute

func newCreate(a *output.Console) *cobra.Command {
	var f flags
	var wait time.Duration
	var environment string
	var ifDue bool
	c := &cobra.Command{
		Use: "create", Short: "Create a backup of the database", Args: cobra.NoArgs, Example: "  gpuaas backup create --target file:///backups --key backup-server.key",
		Long: `Streams a base backup, encrypted, into the target, waits until PostgreSQL has archived the WAL that it needs,
and writes the manifest. The database is that of DATABASE_URL, or else of the profile of gpuaas up.
Its role needs REPLICATION and reads all tables. A backup that is interrupted does not appear in the list.
With NATS_URL the manifest also has the last sequence of each stream of NATS.
A timer calls the command each hour with --if-due: the policy backup.every_hours is then the schedule.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, made, err := create(cmd.Context(), a, &f, createFlags{environment, wait, ifDue})
			if err != nil {
				return err
			}
			if !made {
				a.Notify("The last backup is younger than the policy backup.every_hours permits; none was made.")
				return nil
			}
			if len(m.Checks.Rows) == 0 {
				a.Notify("%s The database was never without a writing transaction: gpuaas backup verify cannot compare numbers of rows.", output.SymbolWarn)
			}
			return show(a, []backup.Listed{{ID: m.ID, Manifest: m}})
		},
	}
	f.addTarget(c)
	f.addKey(c)
	c.Flags().StringVar(&environment, "environment", "", "name of the environment; default: that of the applied revision")
	c.Flags().DurationVar(&wait, "wait-wal", waitWAL, "time limit for the archived WAL")
	c.Flags().BoolVar(&ifDue, "if-due", false, "do nothing while the last backup is younger than backup.every_hours")
	return c
}

type createFlags struct {
	environment string
	wait        time.Duration
	ifDue       bool
}

func create(ctx context.Context, a *output.Console, f *flags, c createFlags) (m manifest.Manifest, made bool, err error) {
	s, err := f.service(a)
	if err != nil {
		return m, false, err
	}
	server, err := f.server(a)
	if err != nil {
		return m, false, err
	}
	url, err := client.DatabaseURL(a)
	if err != nil {
		return m, false, err
	}
	db, err := client.Database(ctx, a, "gpuaas-backup")
	if err != nil {
		return m, false, err
	}
	defer db.Close()
	if c.ifDue {
		if due, err := isDue(ctx, a, s, server.Verifier(), db); !due || err != nil {
			return m, false, err
		}
	}
	if c.environment, err = environmentOf(ctx, db, c.environment); err != nil {
		return m, false, err
	}
	streams, err := streamsOf(a)
	if err != nil {
		return m, false, err
	}
	config := backup.CreateConfig{URL: url, DB: db, Server: server, Environment: c.environment, WaitWAL: c.wait, Streams: streams}
	if m, err = s.Create(ctx, config); err != nil {
		return m, false, err
	}
	return m, true, (&record.Service{DB: db}).Created(ctx, m)
}

func isDue(ctx context.Context, a *output.Console, s *backup.Service, v seal.Verifier, db pg.Queryer) (bool, error) {
	rules, err := rulesOf(ctx, db)
	if err != nil {
		return false, err
	}
	system, err := backup.SystemOf(ctx, db)
	if err != nil {
		return false, err
	}
	all, err := s.List(ctx, v)
	return backup.Due(all, system, rules.Every, a.Clock.Now()), err
}

// rulesOf reads the policies of a database.
func rulesOf(ctx context.Context, db pg.Queryer) (record.Rules, error) {
	c := &policies.Client{DB: db}
	if _, err := c.Refresh(ctx); err != nil {
		return record.Rules{}, err
	}
	return record.RulesFrom(c)(), nil
}

// environmentOf returns the name of the applied Environment object.
func environmentOf(ctx context.Context, q pg.Queryer, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	o, _, err := (&desired.Store{}).Profile(ctx, q)
	if errs.CodeOf(err) == errs.NotFound {
		return "", errs.Invalid("environment", "the database has no environment yet").Try("--environment NAME")
	}
	return o.Name, err
}

func newList(a *output.Console) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use: "list", Short: "List backups", Args: cobra.NoArgs, Example: "  gpuaas backup list --target file:///backups --key backup-server.key",
		Long: `Lists the complete backups of the target, the oldest first, and verifies the signature of each manifest
with the key file of the server or of the operator.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.service(a)
			if err != nil {
				return err
			}
			v, err := f.verifier(a)
			if err != nil {
				return err
			}
			all, err := s.List(cmd.Context(), v)
			if err != nil {
				return err
			}
			return show(a, all)
		},
	}
	f.addTarget(c)
	f.addKey(c)
	f.addIdentity(c)
	return c
}

// row is a backup in the output for programs.
type row struct {
	manifest.Manifest

	Fault string `json:"fault,omitempty"`
}

func show(a *output.Console, all []backup.Listed) error {
	t := output.Table{Head: []string{"ID", "ENVIRONMENT", "ENDED", "SIZE", "STATUS"}, Wide: []string{"POSTGRESQL", "SCHEMA", "TIMELINE", "FROM", "TO"}}
	rows := make([]row, len(all))
	for i, one := range all {
		m := one.Manifest
		status := output.SymbolGood + " complete"
		rows[i] = row{Manifest: m}
		if one.Fault != nil {
			status, rows[i].Fault, rows[i].ID = output.SymbolBad+" "+one.Fault.Error(), one.Fault.Error(), one.ID
		}
		t.Add("backup/"+one.ID, one.ID, output.OrDash(m.Environment), output.FormatTime(m.EndedAt), fmt.Sprintf("%.1f MiB", float64(m.Bytes())/(1<<20)), status,
			strconv.Itoa(m.PostgreSQL), strconv.FormatInt(m.Schema, 10), strconv.FormatUint(uint64(m.Timeline), 10), m.Start.String(), m.Checks.At.String())
	}
	document, err := output.Encode(map[string]any{"items": rows})
	if err != nil {
		return err
	}
	return a.Show(document, t)
}
