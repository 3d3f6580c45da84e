//go:build e2e

package e2e

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/e2e/check"
	"github.com/gpuaas/gpuaas/internal/natsd"
)

// delivered stops the installation and compares its event streams on the disk with its outbox.
func delivered(t *testing.T, h *installation) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	db, err := h.sql(ctx)
	must(t, err)
	facts, err := check.Outbox(ctx, db)
	must(t, err)
	must(t, db.Close(ctx))
	h.stop()
	s, err := natsd.Start(natsd.Config{Dir: filepath.Join(h.data(), "nats")})
	must(t, err)
	defer s.Stop()
	nc, err := s.Connect("judge")
	must(t, err)
	defer nc.Close()
	found, err := check.Streams(ctx, nc, facts)
	must(t, err)
	for _, f := range found {
		t.Error(f)
	}
	t.Logf("%d facts, %d findings", len(facts), len(found))
}
