package backup

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/platform/backup"
)

func newPush(a *output.Console) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use: "wal-push FILE", Short: "Copy a WAL file to the target", Args: cobra.ExactArgs(1), Example: "  archive_command = 'gpuaas backup wal-push %p'",
		Long: `Encrypts a file of WAL into the target, for archive_command. It ends with 0 when the file is durable there, also
if it was before, and with an error if the target has another content for it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.service(a)
			if err != nil {
				return err
			}
			server, err := f.server(a)
			if err != nil {
				return err
			}
			return s.Push(cmd.Context(), args[0], server)
		},
	}
	f.addTarget(c)
	f.addKey(c)
	return c
}

func newReceive(a *output.Console) *cobra.Command {
	var f flags
	var c backup.ReceiveConfig
	cmd := &cobra.Command{
		Use: "wal-receive", Short: "Copy WAL from a server to the target", Args: cobra.NoArgs, Example: "  gpuaas backup wal-receive --spool /var/spool/gpuaas-wal --slot gpuaas",
		Long: `Runs pg_receivewal for a PostgreSQL whose archive_command you cannot set, and copies each whole segment into the
target, until it is stopped. The server switches segments at archive_timeout only with archive_mode; without
it, a segment is whole when it is full. With --slot the server preserves WAL while the command does not run.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			s, err := f.service(a)
			if err != nil {
				return err
			}
			if c.Server, err = f.server(a); err != nil {
				return err
			}
			if c.URL, err = client.DatabaseURL(a); err != nil {
				return err
			}
			if c.DB, err = client.Database(cmd.Context(), a, "gpuaas-backup"); err != nil {
				return err
			}
			defer c.DB.Close()
			return s.Receive(cmd.Context(), c)
		},
	}
	f.addTarget(cmd)
	f.addKey(cmd)
	cmd.Flags().StringVar(&c.Spool, "spool", "", "folder for segments that are being received")
	cmd.Flags().StringVar(&c.Slot, "slot", "", "existing replication slot")
	_ = cmd.MarkFlagRequired("spool")
	return cmd
}

func newFetch(a *output.Console) *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use: "wal-fetch NAME FILE", Short: "Download a WAL file from the target", Args: cobra.ExactArgs(2), Example: "  restore_command = 'gpuaas backup wal-fetch %f %p'",
		Long: `Decrypts a file of WAL from the target, for restore_command of a standby. gpuaas backup restore does not need it.
The command runs in the data directory, as PostgreSQL calls it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.service(a)
			if err != nil {
				return err
			}
			operator, err := f.operator(a)
			if err != nil {
				return err
			}
			system, err := backup.System(filepath.Dir(filepath.Dir(filepath.Clean(args[1]))))
			if err != nil {
				return err
			}
			content, err := s.Fetch(cmd.Context(), system, args[0], operator)
			if err != nil {
				return err
			}
			return durable.Write(args[1], content, 0o600)
		},
	}
	f.addTarget(c)
	f.addIdentity(c)
	return c
}
