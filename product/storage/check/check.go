// Package check compares the object store with the files of projects, a slice of ids at a time. It deletes backend objects that no
// file has, and flags files whose bytes are lost or changed. It never deletes a file, nor what a restored database does not know
// before an operator has confirmed.
package check

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

const (
	// sliceSize is the number of backend objects of one slice.
	sliceSize = 2000
	// unknownFor is the age of a backend object without a file that may be deleted. An upload needs less.
	unknownFor = 24 * time.Hour
	// clocksDiffer is the most by which the clock of a server, whose time is in the ids, may be ahead of that of the database.
	clocksDiffer = time.Hour
	// sampleSize bounds the bytes whose checksum one slice computes.
	sampleSize = 64 << 20
)

// Service is used by the role work.
type Service struct {
	DB    pg.Pool
	Blobs blob.Store
	Clock clock.Clock
	// UploadLife returns the longest time in which an upload in parts can be completed.
	UploadLife func() time.Duration
	// Others returns those of the backend objects that other packages have stored, which are no files of projects. Nil: none.
	Others func(ctx context.Context, keys []uuid.UUID) ([]uuid.UUID, error)
}

// State contains what the comparison has found.
type State struct {
	Unknown, Missing, Damaged, Collected int64      // Unknown: also uploads in the object store
	FinishedAt                           *time.Time // of the last whole pass
	HistorySince                         time.Time  // what is older may have files that the database does not know
}

// State reads it.
func (s *Service) State(ctx context.Context) (st State, err error) {
	var uploads int64
	if err := s.DB.QueryRow(ctx, selectState).Scan(&st.Unknown, &uploads, &st.Collected, &st.FinishedAt, &st.Missing, &st.Damaged, &st.HistorySince); err != nil {
		return State{}, fmt.Errorf("reading the comparison of the object store: %w", err)
	}
	st.Unknown += uploads
	return st, nil
}

// slice is a range of ids: what the object store has of it, and what the files need.
type slice struct {
	after, upTo uuid.UUID
	last        bool // nothing is behind it
	stored      []blob.Info
	files       []file
}

type file struct {
	key, tenant, project uuid.UUID
	size                 int64
	sha256               []byte
}

// Slice compares the next slice. After the last one the comparison begins again.
func (s *Service) Slice(ctx context.Context) error {
	var p slice
	if err := s.DB.QueryRow(ctx, selectPosition).Scan(&p.after); err != nil {
		return fmt.Errorf("reading the position of the comparison: %w", err)
	}
	if err := s.read(ctx, &p); err != nil {
		return err
	}
	unknown, collected, err := s.collect(ctx, p.stored)
	if err != nil {
		return err
	}
	if err := s.flag(ctx, p); err != nil {
		return err
	}
	next := p.upTo
	if p.last {
		next = uuid.Nil
	}
	if _, err := s.DB.Exec(ctx, movePosition, p.after, next, unknown, collected, p.last); err != nil {
		return fmt.Errorf("moving the position of the comparison: %w", err)
	}
	return nil
}

// read lists the object store first: what is stored later is not expected, and what is missing is read again.
func (s *Service) read(ctx context.Context, p *slice) error {
	p.upTo, p.last = uuid.Max, true
	for info, err := range s.Blobs.List(ctx, p.after) {
		if err != nil {
			return fmt.Errorf("listing the object store: %w", err)
		}
		if p.stored = append(p.stored, info); len(p.stored) == sliceSize {
			p.upTo, p.last = info.ID, false
			break
		}
	}
	files, err := pg.List(ctx, s.DB, "files", selectFiles, func(row pgx.CollectableRow) (f file, err error) {
		err = row.Scan(&f.key, &f.tenant, &f.project, &f.size, &f.sha256)
		return f, err
	}, p.after, p.upTo, sliceSize)
	if len(files) == sliceSize { // more files than backend objects: many are missing
		p.upTo, p.last = files[len(files)-1].key, false
		p.stored = slices.DeleteFunc(p.stored, func(i blob.Info) bool { return bytes.Compare(i.ID[:], p.upTo[:]) > 0 })
	}
	p.files = files
	return err
}

// collect deletes backend objects without a file that are newer than the last restart of the database. Older ones may be those of
// files that a restored database does not know.
func (s *Service) collect(ctx context.Context, stored []blob.Info) (left, collected int64, err error) {
	var old []uuid.UUID
	var since []time.Time
	for _, info := range stored {
		if s.Clock.Now().Sub(info.Modified) > unknownFor {
			old, since = append(old, info.ID), append(since, created(info))
		}
	}
	if len(old) == 0 {
		return 0, 0, nil
	}
	unknown, err := pg.List(ctx, s.DB, "backend objects without a file", selectUnknown, pgx.RowToStructByPos[stray], old, since, clocksDiffer)
	if err != nil {
		return 0, 0, err
	}
	others, err := s.others(ctx, old)
	if err != nil {
		return 0, 0, err
	}
	for _, u := range unknown {
		if others[u.Key] {
			continue
		}
		if !u.Covered {
			left++
			continue
		}
		if err := s.Blobs.Delete(ctx, u.Key); err != nil {
			return left, collected, fmt.Errorf("deleting the backend object %s: %w", u.Key, err)
		}
		collected++
	}
	return left, collected, nil
}

// others returns the backend objects that other packages have stored.
func (s *Service) others(ctx context.Context, keys []uuid.UUID) (map[uuid.UUID]bool, error) {
	all := map[uuid.UUID]bool{}
	if s.Others == nil {
		return all, nil
	}
	list, err := s.Others(ctx, keys)
	for _, key := range list {
		all[key] = true
	}
	return all, err
}

// stray is a backend object without a file, or an upload without a row. Covered: the database has the history since its
// beginning, or an operator has confirmed.
type stray struct {
	Key     uuid.UUID
	Covered bool
}

// created is the time in the id, which is before the upload of the bytes.
func created(info blob.Info) time.Time { return begun(info.ID, info.Modified) }

func begun(id uuid.UUID, otherwise time.Time) time.Time {
	if id.Version() != 7 {
		return otherwise
	}
	seconds, nanos := id.Time().UnixTime()
	return time.Unix(seconds, nanos)
}

// flag writes the faults of the slice, and removes those that are none any more.
func (s *Service) flag(ctx context.Context, p slice) error {
	has := make(map[uuid.UUID]int64, len(p.stored))
	for _, info := range p.stored {
		has[info.ID] = info.Size
	}
	sample := s.sample(p)
	b := &pgx.Batch{}
	var sound []uuid.UUID
	for i, f := range p.files {
		fault, err := s.examine(ctx, f, has, i == sample)
		if err != nil {
			return err
		}
		if fault == "" {
			sound = append(sound, f.key)
			continue
		}
		b.Queue(insertFault, f.key, f.tenant, f.project, fault)
	}
	b.Queue(deleteFaults, p.after, p.upTo, sound)
	if err := tx(ctx, s.DB, b); err != nil {
		return fmt.Errorf("flagging files: %w", err)
	}
	return nil
}

func tx(ctx context.Context, db pg.Pool, b *pgx.Batch) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return tx.SendBatch(ctx, b).Close() })
}

// sample chooses a file whose checksum is computed, or -1. A later pass chooses another one.
func (s *Service) sample(p slice) int {
	var fit []int
	for i, f := range p.files {
		if f.sha256 != nil && f.size <= sampleSize {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return -1
	}
	return fit[int(s.Clock.Now().Unix())%len(fit)]
}

// The faults of a file.
const (
	missing = "missing"
	damaged = "damaged"
)

// examine returns the fault of a file, or nothing.
func (s *Service) examine(ctx context.Context, f file, has map[uuid.UUID]int64, sampled bool) (fault string, err error) {
	size, listed := has[f.key]
	if !listed {
		info, err := s.Blobs.Stat(ctx, f.key)
		switch {
		case errors.Is(err, blob.ErrNotFound):
			return missing, nil
		case err != nil:
			return "", fmt.Errorf("reading the backend object %s: %w", f.key, err)
		}
		size = info.Size
	}
	if size != f.size {
		return damaged, nil
	}
	if !sampled {
		return "", nil
	}
	from, err := s.Blobs.Get(ctx, f.key, 0, -1)
	if errors.Is(err, blob.ErrNotFound) {
		return missing, nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the backend object %s: %w", f.key, err)
	}
	sum := sha256.New()
	_, err = io.Copy(sum, from)
	if err = errors.Join(err, from.Close()); err != nil {
		return "", fmt.Errorf("reading the backend object %s: %w", f.key, err)
	}
	if !bytes.Equal(sum.Sum(nil), f.sha256) {
		return damaged, nil
	}
	return "", nil
}
