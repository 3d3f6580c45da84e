//go:build failpoint

package jobs_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/failpoint/killtest"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/migrations"
	"github.com/gpuaas/gpuaas/platform/evidence"
	format "github.com/gpuaas/gpuaas/platform/evidence/bundle"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/product/storage/blob/files"
	"github.com/gpuaas/gpuaas/services"
)

// buildEvidence works until no job of a bundle waits.
func buildEvidence(ctx context.Context, _ string) error {
	db, err := pg.Open(ctx, os.Getenv("PAYMENT_TEST_DB"), "test", 6)
	if err != nil {
		return err
	}
	defer db.Close()
	dir, quiet := os.Getenv("EVIDENCE_TEST_DIR"), slog.New(slog.DiscardHandler)
	signer, err := secret.OpenSigner(filepath.Join(dir, "keys"))
	if err != nil {
		return err
	}
	store, err := files.Open(filepath.Join(dir, "files"), clock.Clock{})
	if err != nil {
		return err
	}
	s, err := services.New(services.Config{
		DB: db, Policies: &policies.Client{DB: db, Hints: &hint.Bus{}, Log: quiet}, Hints: &hint.Bus{}, Naming: ids.DefaultNaming, Log: quiet, Blobs: store, EvidenceSigner: signer, Environment: "test",
		ReleaseKeys: func() map[string][]byte { return nil }, PaymentMetrics: payment.NewMetrics(), PublicURL: func() string { return "https://gpuaas.example" },
	})
	if err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(db), &river.Config{
		Schema: migrations.RiverSchema, Logger: quiet, FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond, TestOnly: true,
		Workers: jobs.Workers(&jobs.Deps{Services: s, Tasks: &nodetask.Store{DB: db}, Log: quiet}), Queues: map[string]river.QueueConfig{evidence.QueueEvidence: {MaxWorkers: 1}},
	})
	if err != nil {
		return err
	}
	s.Queue, s.Evidence.Jobs = client, client
	if _, err := db.Exec(ctx, `UPDATE river.river_job SET state = 'available' WHERE state = 'running'`); err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	for left := 1; left > 0; time.Sleep(5 * time.Millisecond) {
		if err := db.QueryRow(ctx, `SELECT count(*) FROM river.river_job WHERE kind = 'build_evidence' AND finalized_at IS NULL`).Scan(&left); err != nil {
			return err
		}
	}
	return client.Stop(ctx)
}

// A worker that is killed before or after the commit of a bundle. Each request has one bundle, and the chain is whole.
func TestEvidenceKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	n := 0
	for _, point := range failpoint.Points {
		if !strings.HasPrefix(point, "job.evidence.") {
			continue
		}
		n++
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w, dir := allocationtest.New(t, 1_000_000), t.TempDir()
			w.Node(t, "node-1", 4)
			client, err := river.NewClient(riverpgxv5.New(w.DB), &river.Config{Schema: migrations.RiverSchema})
			must(t, err)
			store, err := files.Open(filepath.Join(dir, "files"), clock.Clock{})
			must(t, err)
			s := &evidence.Service{DB: w.DB, Identity: w.Allocations.Identity, Files: store, Naming: ids.DefaultNaming, Jobs: client}
			a := w.Active(t, 1)
			var requests []evidence.Record
			for range 2 {
				r, err := s.Request(t.Context(), identity.Change[evidence.Record]{Caller: w.Caller}, a.Tenant, a.ID, "a")
				must(t, err)
				requests = append(requests, r)
			}
			child, killed := killtest.New(t, point, "PAYMENT_TEST_STEP=evidence", "PAYMENT_TEST_DB="+w.DB.Config().ConnString(), "EVIDENCE_TEST_DIR="+dir), 0
			for {
				if _, dead := child.Run(t.Context(), t); !dead {
					break
				}
				killed++
			}
			var all []format.Bundle
			for _, r := range requests {
				r, file, err := s.Open(t.Context(), r.ID)
				must(t, err)
				if r.Status != evidence.StatusSigned {
					t.Fatalf("killed %d times: %s", killed, r.Status)
				}
				b, err := format.Open(file, format.Keys{*r.KeyID: r.PublicKey})
				must(t, err)
				all = append(all, b)
			}
			if gaps, fault := format.Chain(all, ""); killed != 1 || fault != nil || len(gaps) > 0 {
				t.Errorf("killed %d times: %v %v", killed, gaps, fault)
			}
			var rows int
			if err := w.DB.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs WHERE action = 'evidence.sign'`).Scan(&rows); err != nil || rows != 2 {
				t.Errorf("%d audit rows, %v", rows, err)
			}
		})
	}
	if n != 2 {
		t.Errorf("%d points", n)
	}
}
