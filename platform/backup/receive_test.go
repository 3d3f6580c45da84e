package backup_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/store/folder"
)

// TestReceivedWALIsThatOfTheArchive: both ways store a segment with the same content, so that one can replace the other.
func TestReceivedWALIsThatOfTheArchive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir, spool := t.TempDir(), filepath.Join(t.TempDir(), "spool")
	target, err := folder.Open(dir)
	check(t, err)
	service := &backup.Service{Store: target}
	s.exec(t, `SELECT pg_create_physical_replication_slot('receive', true)`)
	var first string
	check(t, s.db.QueryRow(t.Context(), `SELECT pg_walfile_name(pg_current_wal_lsn())`).Scan(&first))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- service.Receive(ctx, backup.ReceiveConfig{URL: s.url, DB: s.db, Server: s.server, Spool: spool, Slot: "receive"})
	}()
	stored := filepath.Join(dir, "wal", filepath.Base(s.walFolder()), first)
	eventually(t, "the segment is received", func() bool {
		if _, err := os.Stat(stored); err == nil {
			return true
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(200 * time.Millisecond):
			s.exec(t, `SELECT pg_switch_wal() FROM pg_logical_emit_message(false, 'test', 'x')`)
		}
		return false
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.archive(t)
	received, err := service.Fetch(t.Context(), s.manifest.System, first, s.operator)
	check(t, err)
	archived, err := s.service().Fetch(t.Context(), s.manifest.System, first, s.operator)
	check(t, err)
	if string(received) != string(archived) {
		t.Error("the archived segment differs from the received one")
	}
}
