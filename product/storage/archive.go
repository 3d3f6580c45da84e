package storage

import (
	"archive/zip"
	"context"
	"fmt"
	"io"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// maxArchive limits the objects of an archive, because the directory at its end is built in memory.
const maxArchive = 100_000

const archivePage = 1000

// Archive writes all that is below a folder.
type Archive struct {
	s      *Service
	at     Scope
	Folder Object
}

// Archive returns an archive of a folder, or the reason why there can be none.
func (s *Service) Archive(ctx context.Context, at Scope, p objectpath.Path) (Archive, error) {
	o, err := s.Stat(ctx, at, p)
	if err != nil {
		return Archive{}, err
	}
	if o.Type == File {
		return Archive{}, errs.New(errs.Conflict, "%q is a file", p).At("path").Try("download the file")
	}
	var objects int
	if err := s.DB.QueryRow(ctx, countBelow, o.ID, maxArchive+1).Scan(&objects); err != nil {
		return Archive{}, fmt.Errorf("counting the files of %s: %w", p, err)
	}
	if objects > maxArchive {
		return Archive{}, errs.New(errs.Conflict, "the folder has more than %d files and folders", maxArchive).At("path").Try("download the folders in it, or use gpuaas storage cp")
	}
	return Archive{s, at, o}, nil
}

// WriteTo writes a zip archive. The names begin with that of the folder.
func (a Archive) WriteTo(ctx context.Context, to io.Writer) error {
	out := zip.NewWriter(to)
	q := Query{Folder: a.Folder.Path, Recursive: true, Limit: archivePage}
	for written := 0; ; {
		page, err := a.s.List(ctx, a.at, q)
		if err != nil {
			return err
		}
		// The folder may have grown since it was counted.
		if written += len(page); written > 2*maxArchive {
			return errs.New(errs.Conflict, "the folder grows")
		}
		for _, o := range page {
			if err := a.add(ctx, out, o); err != nil {
				return err
			}
		}
		if len(page) < q.Limit {
			return out.Close()
		}
		q.After = PositionOf(page[len(page)-1], q)
	}
}

// add writes an object. Stored bytes are often compressed already, so they are not compressed again.
func (a Archive) add(ctx context.Context, out *zip.Writer, o Object) error {
	h := &zip.FileHeader{Name: o.Path[max(len(a.Folder.Path)-1, 0):].String(), Method: zip.Store, Modified: o.UpdatedAt.UTC()}
	h.SetMode(0o644)
	if o.Type == Folder {
		h.Name += "/"
		h.SetMode(0o755)
	}
	to, err := out.CreateHeader(h)
	if err != nil || o.Type == Folder {
		return err
	}
	from, err := a.s.Blobs.Get(ctx, o.Key, 0, -1)
	if err != nil {
		return Unavailable(err)
	}
	defer from.Close() //nolint:errcheck // it was read
	n, err := io.Copy(to, from)
	if err == nil && n != o.Size {
		return fmt.Errorf("the object store has %d of %d bytes of %s: %w", n, o.Size, o.ID, io.ErrUnexpectedEOF)
	}
	return err
}
