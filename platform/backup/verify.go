package backup

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// Verified is the result of Verify.
type Verified struct {
	ID     string   `json:"backup_id"`
	Tables int      `json:"tables"` // whose rows were compared
	Rows   int64    `json:"rows"`
	Faults []string `json:"faults"`
}

// Verify restores the backup into a folder of its own below dir, compares the database with the manifest, and removes it.
func (s *Service) Verify(ctx context.Context, id, dir string, operator seal.Operator) (v Verified, err error) {
	m, err := s.Manifest(ctx, id, operator.Verifier)
	if err != nil {
		return v, err
	}
	bin, err := toolsOf(ctx, m.PostgreSQL)
	if err != nil {
		return v, err
	}
	scratch, err := os.MkdirTemp(dir, "gpuaas-verify-")
	if err != nil {
		return v, errs.Invalid("dir", "cannot be used: %v", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	v = Verified{ID: id, Faults: []string{}}
	err = s.recovered(ctx, recovery{
		manifest: m, dir: filepath.Join(scratch, "cluster"), operator: operator,
		point: Point{LSN: m.Checks.At, Timeline: m.Timeline}, params: map[string]string{"fsync": "off"},
		check: func(data string) error { return verifyFiles(ctx, filepath.Join(bin.Dir, "pg_verifybackup"), data) },
	}, func(ctx context.Context, db *pgxpool.Pool) error { return v.compare(ctx, db, m) })
	return v, err
}

// verifyFiles compares the files with the manifest of PostgreSQL, and parses the WAL that they need.
func verifyFiles(ctx context.Context, tool, data string) error {
	said, err := exec.CommandContext(ctx, tool, "--exit-on-error", data).CombinedOutput() //nolint:gosec // a binary of PostgreSQL
	if err != nil {
		return errs.New(errs.SignatureInvalid, "pg_verifybackup: %s", bytes.TrimSpace(said)).Try("use an older backup").Because(err)
	}
	return nil
}

// maxFaults limits the report.
const maxFaults = 50

func (v *Verified) found(format string, args ...any) {
	if len(v.Faults) < maxFaults {
		v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
	}
}

// compare checks the rows, the ledger and the audit log of the restored database.
func (v *Verified) compare(ctx context.Context, db *pgxpool.Pool, m manifest.Manifest) error {
	if len(m.Checks.Rows) > 0 {
		if err := v.compareRows(ctx, db, m.Checks.Rows); err != nil {
			return err
		}
	}
	books, err := (&ledger.Service{DB: db}).Verify(ctx, zeroTenant, m.Checks.Ledger...)
	if err != nil {
		return err
	}
	for _, f := range books.Faults {
		v.found("ledger account %s: %s", f.Account, f.Wrong)
	}
	records, err := (&audit.Service{DB: db}).Verify(ctx, zeroTenant, m.Checks.Audit)
	if err != nil {
		return err
	}
	for _, c := range records.Chains {
		if c.Fault != nil {
			v.found("audit log of tenant %s: %s", c.Tenant, c.Fault.Wrong)
		}
	}
	return nil
}

func (v *Verified) compareRows(ctx context.Context, db *pgxpool.Pool, want map[string]int64) error {
	have, err := countTables(ctx, db)
	if err != nil {
		return err
	}
	v.Tables = len(want)
	for _, table := range slices.Sorted(maps.Keys(want)) {
		v.Rows += have[table]
		if n, exists := have[table]; !exists {
			v.found("table %s is missing", table)
		} else if n != want[table] {
			v.found("table %s has %d rows, and had %d", table, n, want[table])
		}
	}
	return nil
}
