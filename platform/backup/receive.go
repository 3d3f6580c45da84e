package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
)

// ReceiveConfig is the input of Receive.
type ReceiveConfig struct {
	URL    string
	DB     *pgxpool.Pool
	Server seal.Server
	Spool  string // folder of pg_receivewal; its content continues after a restart
	Slot   string // replication slot; empty: WAL that the server has removed is lost
}

// receivePoll is the interval at which Receive reads the spool.
const receivePoll = time.Second

// Receive runs pg_receivewal for a server whose archive_command is not ours, and pushes each whole segment. It runs until
// ctx ends or pg_receivewal does, which itself connects again after an interruption.
func (s *Service) Receive(ctx context.Context, c ReceiveConfig) error {
	var m manifest.Manifest
	if _, err := describe(ctx, CreateConfig{DB: c.DB}, &m); err != nil {
		return err
	}
	bin, err := toolsOf(ctx, m.PostgreSQL)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Spool, 0o700); err != nil {
		return errs.Invalid("spool", "cannot be made: %v", err)
	}
	address, password, err := withoutPassword(c.URL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin.Dir, "pg_receivewal"), "--directory="+c.Spool, "--dbname="+address, "--no-password", "--synchronous") //nolint:gosec // a binary of PostgreSQL
	if c.Slot != "" {
		cmd.Args = append(cmd.Args, "--slot="+c.Slot)
	}
	cmd.Env = environment(password)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting pg_receivewal: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	pushed := s.pushSpool(ctx, c, m.System, ended)
	cancel()
	return pushed
}

// pushSpool pushes whole segments until pg_receivewal ends. The newest one stays: pg_receivewal continues behind it.
func (s *Service) pushSpool(ctx context.Context, c ReceiveConfig, system uint64, ended <-chan error) error {
	tick := time.NewTicker(receivePoll)
	defer tick.Stop()
	for {
		if err := s.pushWhole(ctx, c, system); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			if ctx.Err() != nil { // which has ended it
				return ctx.Err()
			}
			return errs.New(errs.Unavailable, "pg_receivewal has ended: %v", err).Try("the role of DATABASE_URL needs REPLICATION, and the slot must exist")
		case <-tick.C:
		}
	}
}

func (s *Service) pushWhole(ctx context.Context, c ReceiveConfig, system uint64) error {
	entries, err := os.ReadDir(c.Spool)
	if err != nil {
		return fmt.Errorf("reading the spool: %w", err)
	}
	whole := slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !lsn.IsSegment(e.Name()) && !lsn.IsHistory(e.Name()) })
	slices.SortFunc(whole, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for i, e := range whole {
		file := filepath.Join(c.Spool, e.Name())
		if err := s.push(ctx, file, system, c.Server); err != nil {
			return err
		}
		if i < len(whole)-1 && lsn.IsSegment(e.Name()) {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("removing a pushed segment: %w", err)
			}
		}
	}
	return nil
}
