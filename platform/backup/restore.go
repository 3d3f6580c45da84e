package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
)

// Point is the end of a recovery. The zero value means the end of the WAL.
type Point struct {
	At       time.Time
	LSN      lsn.LSN
	Timeline uint32 // 0: the latest
}

// RestoreConfig is the input of Restore.
type RestoreConfig struct {
	ID       string
	Dir      string // must not exist, or be empty
	Operator seal.Operator
	Point    Point
	// Environment names the environment of the restored database. Empty means that of the backup.
	Environment string
	// Rename permits that the environments differ.
	Rename bool
	// Mark makes the servers of the restored database start in restore mode. db is that of the role that owns the schema. to
	// is the time that it was restored to. nil: the database is not marked.
	Mark func(ctx context.Context, db *pgxpool.Pool, id string, to time.Time) error
}

// Restored describes a restored database.
type Restored struct {
	ID       string     `json:"backup_id"`
	Data     string     `json:"data_directory"`
	Position lsn.LSN    `json:"lsn"`
	Timeline uint32     `json:"timeline"`
	LastAt   *time.Time `json:"last_commit_at,omitempty"` // of the last replayed commit
	Marked   bool       `json:"marked"`                   // servers start in restore mode
	// Unconfigured: the backup has no postgresql.conf, because the server has it outside of its data directory.
	Unconfigured bool `json:"unconfigured"`
	// ArchiveOff: the database is a copy for another environment, and does not archive.
	ArchiveOff bool `json:"archive_off"`
}

// Restore writes the backup into a folder, recovers up to the point, and marks the database as restored. The data
// directory appears in the folder after that: a killed restore leaves data.new, which the next one removes.
func (s *Service) Restore(ctx context.Context, c RestoreConfig) (r Restored, err error) {
	m, err := s.Manifest(ctx, c.ID, c.Operator.Verifier)
	if err != nil {
		return r, err
	}
	if err := checkTarget(ctx, m, c); err != nil {
		return r, err
	}
	r.ID, r.Data = m.ID, filepath.Join(c.Dir, "data")
	r.ArchiveOff = c.Rename && c.Environment != m.Environment
	return r, pgcluster.Build(ctx, c.Dir, func(stage string) error {
		run := recovery{manifest: m, dir: stage, point: c.Point, operator: c.Operator}
		if err := s.recovered(ctx, run, func(ctx context.Context, db *pgxpool.Pool) error { return r.finish(ctx, db, m, c) }); err != nil {
			return err
		}
		r.Unconfigured, err = putBack(filepath.Join(stage, "data"), r.ArchiveOff)
		return err
	})
}

// finish reads the end of the recovery, and marks the database.
func (r *Restored) finish(ctx context.Context, db *pgxpool.Pool, m manifest.Manifest, c RestoreConfig) error {
	var position, owner string
	err := db.QueryRow(ctx, selectReached).Scan(&position, &r.Timeline, &r.LastAt, &owner)
	if err != nil {
		return fmt.Errorf("reading the end of the recovery: %w", err)
	}
	if r.Position, err = lsn.Parse(position); err != nil || c.Mark == nil {
		return err
	}
	owned, err := pg.OpenAs(ctx, db.Config().ConnString(), owner, application, connections)
	if err != nil {
		return err
	}
	defer owned.Close()
	r.Marked = true
	return c.Mark(ctx, owned, m.ID, restoredTo(m, c.Point, r.LastAt))
}

// restoredTo returns the time that a recovery has reached: without a point that of the last commit.
func restoredTo(m manifest.Manifest, p Point, last *time.Time) time.Time {
	switch {
	case !p.At.IsZero():
		return p.At
	case last != nil:
		return *last
	}
	return m.EndedAt
}

func checkTarget(ctx context.Context, m manifest.Manifest, c RestoreConfig) error {
	if c.Environment != "" && c.Environment != m.Environment && !c.Rename {
		return errs.New(errs.Conflict, "backup %s is of the environment %s, and not of %s", m.ID, m.Environment, c.Environment).
			Try("--rename %s restores it for that environment", c.Environment)
	}
	if c.Point.LSN != 0 && c.Point.LSN < m.End || !c.Point.At.IsZero() && c.Point.At.Before(m.StartedAt) {
		return errs.New(errs.Conflict, "the point is before the end of backup %s", m.ID).Try("gpuaas backup list displays older backups")
	}
	_, err := toolsOf(ctx, m.PostgreSQL)
	return err
}

// recovery is one run of a restored server.
type recovery struct {
	manifest manifest.Manifest
	dir      string
	point    Point
	operator seal.Operator
	params   map[string]string
	check    func(data string) error // of the base backup, before anything in it changes
}

// recovered restores into a folder, runs the server on a private socket, and calls use after the recovery. The caller
// removes the folder after an error.
func (s *Service) recovered(ctx context.Context, r recovery, use func(context.Context, *pgxpool.Pool) error) (err error) {
	if err := pgcluster.Fill(ctx, r.dir, func(data *os.Root) error { return s.fill(ctx, r, data) }); err != nil {
		return fullDisk(err)
	}
	settings := recoverySettings(r.point)
	maps.Copy(settings, r.params)
	cluster, err := pgcluster.Start(ctx, pgcluster.Config{Dir: r.dir, Durable: true, Params: settings, Log: s.Log})
	if err != nil {
		return explain(err, r.dir)
	}
	defer func() { err = errors.Join(err, cluster.Stop(pgcluster.Fast)) }()
	db, err := connect(ctx, cluster, r.manifest)
	if err != nil {
		return err
	}
	defer db.Close()
	return use(ctx, db)
}

// fill writes the data directory: the base backup, the WAL, and what makes PostgreSQL recover.
func (s *Service) fill(ctx context.Context, r recovery, data *os.Root) error {
	m := r.manifest
	for _, f := range m.Files {
		if !f.PostgresData {
			continue
		}
		if err := s.read(ctx, m.ID, f, r.operator, func(from io.Reader) error { return unpack(from, data) }); err != nil {
			return err
		}
	}
	if system, err := System(data.Name()); err != nil || system != m.System {
		return errs.New(errs.Conflict, "the base backup of %s is of the database system %d, and its manifest of %d", m.ID, system, m.System).Because(err)
	}
	if err := s.copyWAL(ctx, m, r.point, r.operator, data); err != nil {
		return err
	}
	if r.check != nil {
		if err := r.check(data.Name()); err != nil {
			return err
		}
	}
	return setAside(data)
}

// own are the files of the configuration during the recovery. Those of the backup could start programs, listen on an
// address, or archive into the target.
var own = map[string]string{
	"postgresql.conf": "", "postgresql.auto.conf": "", "pg_hba.conf": "local all all trust\n", "pg_ident.conf": "",
}

const aside = ".of-backup"

func setAside(data *os.Root) error {
	for name, text := range own {
		if err := data.Rename(name, name+aside); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("setting %s aside: %w", name, err)
		}
		if err := data.WriteFile(name, []byte(text), 0o600); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return data.WriteFile("recovery.signal", nil, 0o600)
}

// putBack restores the configuration of the backup, and removes ours, which trusts every local user. It reports whether
// the backup has none. archiveOff is for a copy: with the archive_command of the original it would write into its target.
func putBack(data string, archiveOff bool) (unconfigured bool, err error) {
	for name := range own {
		path := filepath.Join(data, name)
		err := os.Rename(path+aside, path)
		if errors.Is(err, os.ErrNotExist) {
			unconfigured = unconfigured || name == "postgresql.conf"
			err = os.Remove(path)
		}
		if err != nil {
			return false, fmt.Errorf("restoring %s: %w", name, err)
		}
	}
	if !archiveOff {
		return unconfigured, nil
	}
	// PostgreSQL reads this file last, also if postgresql.conf is elsewhere.
	f, err := os.OpenFile(filepath.Join(data, "postgresql.auto.conf"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return false, fmt.Errorf("switching the archive off: %w", err)
	}
	_, err = f.WriteString("\n# a copy for another environment\narchive_mode = 'off'\n")
	return unconfigured, errors.Join(err, f.Sync(), f.Close())
}

// recoverySettings: the WAL is already in the data directory, so that restore_command finds nothing.
func recoverySettings(p Point) map[string]string {
	s := map[string]string{
		"restore_command": "false", "recovery_target_action": "promote", "recovery_target_timeline": "latest",
		"archive_mode": "off", "hot_standby": "off", "ssl": "off", "shared_preload_libraries": "",
	}
	if p.Timeline != 0 {
		s["recovery_target_timeline"] = strconv.FormatUint(uint64(p.Timeline), 10)
	}
	switch {
	case p.LSN != 0:
		s["recovery_target_lsn"], s["recovery_target_inclusive"] = p.LSN.String(), "off"
	case !p.At.IsZero():
		s["recovery_target_time"] = p.At.UTC().Format("2006-01-02 15:04:05.999999") + "+00"
	}
	return s
}

// explain names the common failures of a recovery, whose reason is only in the log of the server.
func explain(err error, dir string) error {
	switch reason := fatal(dir); {
	case strings.Contains(reason, "recovery ended before configured recovery target was reached"):
		return errs.New(errs.NotFound, "the WAL in the target ends before the point, or no transaction committed after it").
			Try("name an earlier point, or omit it: the recovery then ends with the WAL").Because(err)
	case strings.Contains(reason, "is not a child of this server's history"):
		return notChild(err)
	case reason != "":
		return errs.New(errs.Unavailable, "PostgreSQL has ended the recovery: %s", reason).Because(err)
	}
	return fmt.Errorf("recovering: %w", err)
}

// fatal returns the last reason for an end in the log of the server.
func fatal(dir string) (reason string) {
	text, _ := os.ReadFile(filepath.Join(dir, "postgres.log")) // of one start
	for line := range strings.Lines(string(text)) {
		if _, found, ok := strings.Cut(line, "FATAL:"); ok {
			reason = strings.TrimSpace(found)
		}
	}
	return reason
}

func connect(ctx context.Context, cluster *pgcluster.Cluster, m manifest.Manifest) (*pgxpool.Pool, error) {
	u, err := url.Parse(cluster.URLAs(m.Superuser))
	if err != nil {
		return nil, fmt.Errorf("connecting to the restored database: %w", err)
	}
	u.Path = "/" + m.Database
	return pg.Open(ctx, u.String(), application, connections)
}

// application is the name of our connections in PostgreSQL.
const application = "gpuaas-backup"

// connections of one command: the lock, a snapshot, and statements next to it.
const connections = 4

// fullDisk explains an error of the disk to which a backup is restored.
func fullDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errs.New(errs.Unavailable, "the disk has no space for the restored database").Try("name a folder on a disk with more space").Because(err)
	}
	return err
}
