package pgcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// superuser is the only database user of a private cluster. A process that can open the socket's
// folder is trusted, and only the owner can.
const superuser = "gpuaas"

// initdb makes a new data directory. It appears whole or not at all: a crash in the middle leaves only a
// folder that the next call removes.
func initdb(ctx context.Context, bin Binaries, as owner, data string, durable bool) error {
	fresh := data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("removing an unfinished data directory: %w", err)
	}
	if err := as.folder(fresh); err != nil {
		return err
	}
	cmd, names, done, err := as.command(ctx, filepath.Join(bin.Dir, "initdb"), fresh)
	if err != nil {
		return err
	}
	defer done()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Args = append(cmd.Args,
		"--pgdata="+names[0], "--username="+superuser, "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions")
	if !durable {
		cmd.Args = append(cmd.Args, "--no-sync", "--wal-segsize=1")
	}
	if err := run(ctx, cmd); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	if err := os.Rename(fresh, data); err != nil {
		return fmt.Errorf("placing the data directory: %w", err)
	}
	if !durable {
		return nil
	}
	return syncFolder(filepath.Dir(data))
}

// syncFolder makes a rename in the folder outlast a power cut.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}
