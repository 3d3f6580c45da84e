package audit

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/durable"
)

// archived is a row as a line of a file of the archive: the columns that its hash covers.
type archived struct {
	XID         uint64    `json:"xid,string"`
	ID          uuid.UUID `json:"id"`
	At          time.Time `json:"at"`
	Tenant      uuid.UUID `json:"tenant"`
	Actor       string    `json:"actor"`
	Action      string    `json:"action"`
	Target      string    `json:"target"`
	Correlation string    `json:"correlation,omitempty"`
	// The documents as PostgreSQL writes them: the hash covers these bytes.
	Before    *string `json:"before,omitempty"`
	After     *string `json:"after,omitempty"`
	Address   string  `json:"address,omitempty"`
	UserAgent string  `json:"user_agent,omitempty"`
}

func (a archived) row() *row {
	r := &row{
		xid: a.XID, id: a.ID, at: a.At, actor: a.Actor, action: a.Action, target: a.Target, correlation: a.Correlation,
		client: Client{Address: a.Address, UserAgent: a.UserAgent},
	}
	r.tenant.UUID = a.Tenant
	if a.Before != nil {
		r.before = []byte(*a.Before)
	}
	if a.After != nil {
		r.after = []byte(*a.After)
	}
	return r
}

func archive(r *row) archived {
	a := archived{
		XID: r.xid, ID: r.id, At: r.at.UTC(), Tenant: r.tenant.UUID, Actor: r.actor, Action: r.action, Target: r.target, Correlation: r.correlation,
		Address: r.client.Address, UserAgent: r.client.UserAgent,
	}
	if r.before != nil {
		text := string(r.before)
		a.Before = &text
	}
	if r.after != nil {
		text := string(r.after)
		a.After = &text
	}
	return a
}

// ArchiveMonths writes each month that ended before a time to the archive, once, and returns their number. A month with a row that
// is not sealed is exported later. A crash between the file and its row in audit_exports repeats the same file.
func (s *Service) ArchiveMonths(ctx context.Context, before time.Time) (n int, err error) {
	if s.Archive == "" {
		return 0, nil
	}
	rows, err := s.DB.Query(ctx, selectMonths, before)
	if err != nil {
		return 0, fmt.Errorf("listing months of the audit log: %w", err)
	}
	months, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return 0, fmt.Errorf("listing months of the audit log: %w", err)
	}
	for _, month := range months {
		if err := s.exportMonth(ctx, month.UTC()); err != nil {
			return n, fmt.Errorf("exporting the audit log of %s: %w", month.UTC().Format("2006-01"), err)
		}
		n++
	}
	return n, nil
}

func (s *Service) exportMonth(ctx context.Context, month time.Time) error {
	name := "audit-" + month.Format("2006-01") + ".jsonl.gz"
	if err := os.MkdirAll(s.Archive, 0o700); err != nil {
		return fmt.Errorf("making the archive: %w", err)
	}
	sum := sha256.New()
	var count int64
	err := durable.Stream(filepath.Join(s.Archive, name), 0o400, func(file io.Writer) error {
		packed := gzip.NewWriter(io.MultiWriter(file, sum))
		lines := json.NewEncoder(packed)
		err := s.eachOf(ctx, month, func(r *row) error { count++; return lines.Encode(archive(r)) })
		return errors.Join(err, packed.Close())
	})
	if err != nil {
		return err
	}
	_, err = s.DB.Exec(ctx, insertExport, month, name, count, sum.Sum(nil))
	return err
}

// eachOf calls do for each row of a month, sorted by seal.
func (s *Service) eachOf(ctx context.Context, month time.Time, do func(*row) error) error {
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, patient); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, selectMonth, month)
		if err != nil {
			return err
		}
		var r row
		_, err = pgx.ForEachRow(rows, r.fields(), func() error { return do(&r) })
		return err
	})
}

// Archived is the result of the check of one file of the archive.
type Archived struct {
	Month time.Time `json:"month"`
	File  string    `json:"file"`
	Rows  int64     `json:"rows"`
	Fault string    `json:"fault,omitempty"`
}

// VerifyArchive compares the files of the archive with the seals, which stay in the database.
func (s *Service) VerifyArchive(ctx context.Context) ([]Archived, error) {
	rows, err := s.DB.Query(ctx, selectExports)
	if err != nil {
		return nil, fmt.Errorf("reading exports: %w", err)
	}
	type export struct {
		Archived
		sum []byte
	}
	list, err := pgx.CollectRows(rows, func(one pgx.CollectableRow) (e export, err error) {
		return e, one.Scan(&e.Month, &e.File, &e.Rows, &e.sum)
	})
	if err != nil {
		return nil, fmt.Errorf("reading exports: %w", err)
	}
	all := make([]Archived, len(list))
	for i, e := range list {
		if e.Fault, err = s.verifyFile(ctx, e.Archived, e.sum); err != nil {
			return nil, err
		}
		all[i] = e.Archived
	}
	return all, nil
}

// verifyFile returns the first fault of a file.
func (s *Service) verifyFile(ctx context.Context, a Archived, want []byte) (fault string, err error) {
	file, err := os.Open(filepath.Join(s.Archive, filepath.Base(a.File)))
	if errors.Is(err, os.ErrNotExist) {
		return "the file does not exist", nil
	} else if err != nil {
		return "", fmt.Errorf("opening the archive: %w", err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	packed, err := gzip.NewReader(bufio.NewReader(io.TeeReader(file, sum)))
	if err != nil {
		return "the file is damaged", nil
	}
	lines, n := json.NewDecoder(packed), int64(0)
	var p *page
	for ; ; n++ {
		var line archived
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "the file is damaged", nil
		}
		r := line.row()
		if p == nil || r.xid > p.last() {
			if p, err = s.pageAt(ctx, r.xid); err != nil {
				return "", err
			}
		}
		if fault := p.compareArchived(r); fault != "" {
			return fault, nil
		}
	}
	if _, err := io.Copy(io.Discard, io.TeeReader(file, sum)); err != nil {
		return "", fmt.Errorf("reading the archive: %w", err)
	}
	if n != a.Rows || string(sum.Sum(nil)) != string(want) {
		return fmt.Sprintf("the file is not the exported one: %d rows, exported %d", n, a.Rows), nil
	}
	return "", nil
}

// pageAt reads the seals from the one that covers a transaction on.
func (s *Service) pageAt(ctx context.Context, xid uint64) (*page, error) {
	sealed, _, err := sealedTo(ctx, s.DB)
	if err != nil {
		return nil, fmt.Errorf("reading the last seal: %w", err)
	}
	seals, err := s.seals(ctx, xid-1, sealed, zeroTenant)
	if err != nil {
		return nil, fmt.Errorf("reading seals: %w", err)
	}
	return newPage(seals, max(sealed, xid)), nil
}

// compareArchived returns the difference of a row of the archive from its seal.
func (p *page) compareArchived(r *row) string {
	for r.xid > p.upTo[p.stretch] {
		p.stretch++
	}
	c := p.by[place{p.upTo[p.stretch], r.tenant}]
	if c == nil {
		return fmt.Sprintf("no seal covers row %s", r.id)
	}
	sum, ok := c.left[r.id]
	delete(c.left, r.id) // a second one would replace a row that the file lacks
	switch {
	case !ok:
		return fmt.Sprintf("the seal does not contain row %s", r.id)
	case sum != r.sum(c.form):
		return fmt.Sprintf("row %s was changed", r.id)
	}
	return ""
}
