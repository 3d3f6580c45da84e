package jobs_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs"
	moneyjobs "github.com/gpuaas/gpuaas/jobs/money"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob/files"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// stores gives the bundle an object store, and a price of files.
func (b *bundle) stores() storage.Scope {
	b.t.Helper()
	store, err := files.Open(b.t.TempDir(), clock.Clock{})
	must(b.t, err)
	b.t.Cleanup(func() { _ = store.Close() })
	b.deps.Storage.Blobs = store
	b.deps.Storage.Limits = func(ids.Tenant, ids.Project) storage.Limits {
		return storage.Limits{ProjectBytes: 1 << 40, TenantBytes: 1 << 40, ProjectObjects: 100, TenantObjects: 100, ObjectBytes: 1 << 40}
	}
	b.deps.Billing.Files, b.deps.Billing.Catalog = b.deps.Storage, b.deps.Catalog
	b.done(b.declare(desired.KindStorageClass, "standard", `{"displayName":"S","price":{"currency":"EUR","amountMinor":1000000},"freeGiB":0,"retentionDays":20,"default":true}`))
	return storage.Scope{Tenant: b.Caller.Tenant, Project: b.Caller.Project, By: audit.By{Actor: "test"}}
}

func (b *bundle) upload(at storage.Scope, name, text string) error {
	p, err := objectpath.Parse("path", name)
	must(b.t, err)
	_, _, err = b.deps.Storage.Upload(b.t.Context(), at, storage.NewFile{Path: p, Size: int64(len(text))}, strings.NewReader(text))
	return err
}

// A tenant without a balance stores nothing more, is notified, and loses its files after the grace time. Reads work until
// then.
func TestFilesThatAreNotPaidAreDeleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := b.stores()
	must(t, b.upload(at, "a/b.txt", "hello"))
	b.hasBalance(0)
	if got := b.notices(); got != "low_balance_warning storage_deletion_scheduled" {
		t.Errorf("notices %q", got)
	}
	if days := b.count(`SELECT round(extract(epoch FROM storage_deletes_at - now()) / 86400) FROM balance_notices`); days != 20 {
		t.Errorf("deletes in %d days, want the 20 of the class", days)
	}
	if err := b.upload(at, "c.txt", "more"); errs.CodeOf(err) != errs.InsufficientBalance {
		t.Errorf("an upload without a balance: %v", err)
	}
	p, _ := objectpath.Parse("path", "a/b.txt")
	if _, err := b.deps.Storage.Stat(t.Context(), at, p); err != nil {
		t.Errorf("a read without a balance: %v", err)
	}
	b.hasBalance(5)
	if got := b.notices(); got != "storage_deletion_cancelled" {
		t.Errorf("notices %q after a credit", got)
	}
	b.hasBalance(0)
	if got := b.notices(); got != "storage_deletion_scheduled" {
		t.Errorf("notices %q", got)
	}
	// A credit between the list of what is due and the deletion.
	b.exec(`UPDATE balance_notices SET storage_deletes_at = now(), storage_notified_at = now() - interval '1 hour'`)
	b.hasBalance(5)
	b.Do(t, func(tx pgx.Tx) error {
		deleted, err := b.deps.Billing.DeleteFiles(t.Context(), tx, b.Caller.Tenant)
		if deleted {
			t.Error("files were deleted after a credit")
		}
		return err
	})
	b.hasBalance(0)
	if got := b.notices(); got != "storage_deletion_scheduled" {
		t.Errorf("notices %q", got)
	}
	b.exec(`UPDATE balance_notices SET storage_deletes_at = now(), storage_notified_at = now() - interval '1 hour'`)
	if got := b.notices(); !strings.HasSuffix(got, "storage_deleted") {
		t.Errorf("notices %q", got)
	}
	if n := b.count(`SELECT count(*) FROM audit_logs WHERE action = 'storage.delete_all' AND actor = 'system:work'`); n != 1 {
		t.Errorf("%d audit rows", n)
	}
	b.done(jobs.CleanStorage{})
	if n := b.count(`SELECT count(*) FROM storage_objects WHERE parent_id IS NOT NULL`); n != 0 {
		t.Errorf("%d objects are left", n)
	}
	if got := b.notices(); got != "" {
		t.Errorf("notices %q after the deletion", got)
	}
	if left := b.count(`SELECT bytes FROM usage_storage WHERE end_s IS NULL`); left != 0 {
		t.Errorf("%d bytes are metered", left)
	}
	b.checkEventContract()
}

// Files are charged by the ticks of allocations, each byte once, and the books find no difference.
func TestFilesAreCharged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := b.stores()
	must(t, b.upload(at, "big", strings.Repeat("x", 1<<20)))
	b.exec(`SELECT metering_store($1, $2, $3, 0)`, b.Caller.Tenant, b.Caller.Project, int64(1<<40)) // a charge each second
	before := b.count(`SELECT count(*) FROM ledger_transfers WHERE kind = 'storage'`)
	b.exec(`SELECT pg_sleep(2.1)`)
	b.done(moneyjobs.Accrue{})
	if n := b.count(`SELECT count(*) FROM ledger_transfers WHERE kind = 'storage'`); n != before+1 {
		t.Errorf("%d transfers after %d, want one more", n, before)
	}
	due := b.count(`SELECT div(owed_before + owed + rate * ((SELECT max(to_s) FROM usage_passes) - changed_s), 2783138807808000)::bigint FROM usage_storage WHERE end_s IS NULL`)
	if charged := b.count(`SELECT -sum(amount_minor)::bigint FROM ledger_transfers WHERE kind = 'storage'`); charged != due || due == 0 {
		t.Errorf("charged %d of %d", charged, due)
	}
	books, err := b.deps.Billing.Examine(t.Context())
	must(t, err)
	if !books.Whole() || books.Ticks == 0 {
		t.Errorf("the books: %v", books.Faults())
	}
	must(t, pgx.BeginFunc(t.Context(), b.DB, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica; UPDATE ledger_entries SET amount_minor = amount_minor - 1 WHERE allocation_id IS NULL AND amount_minor < 0`)
		return err
	}))
	books, err = b.deps.Billing.Compare(t.Context())
	must(t, err)
	if len(books.Usage) != 1 || books.Usage[0].Project != b.Caller.Project {
		t.Errorf("a changed entry is not found: %+v", books.Usage)
	}
}
