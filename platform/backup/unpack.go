package backup

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/platform/backup/store"
)

// read decrypts a file of a backup, and compares it with the manifest.
func (s *Service) read(ctx context.Context, id string, f manifest.File, operator seal.Operator, use func(io.Reader) error) error {
	from, err := s.Store.Get(ctx, fileOf(id, f.Name))
	if errors.Is(err, store.ErrNotFound) {
		return errs.New(errs.NotFound, "file %s of backup %s is missing", f.Name, id).Try("use another copy of the backup, or an older backup")
	}
	if err != nil {
		return fmt.Errorf("reading %s of %s: %w", f.Name, id, err)
	}
	defer func() { _ = from.Close() }()
	cipher, plain := count(io.Discard), count(io.Discard)
	// A server that was compromised can encrypt, but not sign for an older backup: the size of the manifest limits it.
	bounded := io.TeeReader(io.LimitReader(from, f.Bytes+1), cipher)
	err = operator.Decrypt(bounded, func(r io.Reader) error {
		tee := io.TeeReader(io.LimitReader(r, f.PlainBytes+1), plain)
		if err := use(tee); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, tee)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s of backup %s: %w", f.Name, id, err)
	}
	if cipher.n != f.Bytes || cipher.digest() != f.SHA256 || plain.n != f.PlainBytes || plain.digest() != f.PlainSHA256 {
		return errs.New(errs.SignatureInvalid, "file %s of backup %s is not the one of the manifest", f.Name, id).Try("use another copy of the backup, or an older backup")
	}
	return nil
}

// unpack writes the base backup into a data directory.
func unpack(r io.Reader, data *os.Root) error {
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the base backup: %w", err)
		}
		if err := unpackOne(h, archive, data); err != nil {
			return err
		}
	}
}

func unpackOne(h *tar.Header, r io.Reader, data *os.Root) error {
	name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
	if !filepath.IsLocal(name) || path.Clean(name) != name {
		return errs.Invalid("base backup", "contains the path %q", h.Name).Try("do not use this backup")
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return data.MkdirAll(name, 0o700)
	case tar.TypeReg:
	default:
		return errs.Invalid("base backup", "contains %q, which is neither a file nor a folder", h.Name).Try("do not use this backup")
	}
	if err := data.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := data.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("writing the base backup: %w", err)
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// stored returns the files of WAL of a database system.
func (s *Service) stored(ctx context.Context, system uint64) (names []string, err error) {
	entries, err := s.Store.List(ctx, walName(system, ""))
	if err != nil {
		return nil, fmt.Errorf("listing the WAL of the target: %w", err)
	}
	for _, e := range entries {
		if name := path.Base(e.Name); lsn.IsFile(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// contains reports whether the store has a file.
func (s *Service) contains(ctx context.Context, name string) (bool, error) {
	f, err := s.Store.Get(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s of the target: %w", name, err)
	}
	return true, f.Close()
}

// copyWAL writes the files of WAL that a recovery needs into a data directory. PostgreSQL reads them there, so the
// process of the server needs neither the identity nor this program.
func (s *Service) copyWAL(ctx context.Context, m manifest.Manifest, p Point, operator seal.Operator, data *os.Root) error {
	names, err := s.stored(ctx, m.System)
	if err != nil {
		return err
	}
	route, err := s.timelines(ctx, m, p, operator, names)
	if err != nil {
		return err
	}
	if err := checkWAL(m, p, route, names); err != nil {
		return err
	}
	for _, name := range names {
		if !wanted(m, p, name) {
			continue
		}
		content, err := s.Fetch(ctx, m.System, name, operator)
		if err != nil {
			return err
		}
		if err := data.WriteFile(path.Join("pg_wal", name), content, 0o600); err != nil {
			return fmt.Errorf("writing WAL: %w", err)
		}
	}
	return nil
}

// wanted reports whether a recovery from the backup to the point may read a file.
func wanted(m manifest.Manifest, p Point, name string) bool {
	if lsn.IsHistory(name) {
		return true
	}
	if !lsn.IsSegment(name) {
		return false
	}
	timeline, number := lsn.Split(name, m.SegmentBytes)
	return number >= m.Start.Number(m.SegmentBytes) && (p.LSN == 0 || number <= p.LSN.Number(m.SegmentBytes)) &&
		timeline >= m.Timeline && (p.Timeline == 0 || timeline <= p.Timeline)
}
