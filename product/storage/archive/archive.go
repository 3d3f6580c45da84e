// Package archive sends the files of a folder as a zip archive.
package archive

import (
	"archive/zip"
	"context"
	"fmt"
	"io"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/listing"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// maxObjects limits the objects of an archive, because the directory at its end is built in memory.
const maxObjects = 100_000

const pageSize = 1000

const countBelow = `
	WITH RECURSIVE below AS (
		SELECT id, type FROM storage_objects WHERE parent_id = $1 AND deleted_at IS NULL
		UNION ALL
		SELECT o.id, o.type FROM below b, LATERAL (SELECT id, type FROM storage_objects WHERE parent_id = b.id AND deleted_at IS NULL LIMIT $2) o WHERE b.type = 'folder'
	)
	SELECT count(*) FROM (SELECT FROM below LIMIT $2) counted`

// Archive writes all that is below a folder.
type Archive struct {
	s      *storage.Service
	at     storage.Scope
	Folder storage.Object
}

// Of returns an archive of a folder, or the reason why there can be none.
func Of(ctx context.Context, s *storage.Service, at storage.Scope, p objectpath.Path) (Archive, error) {
	o, err := s.Stat(ctx, at, p)
	if err != nil {
		return Archive{}, err
	}
	if o.Type == storage.File {
		return Archive{}, errs.New(errs.Conflict, "%q is a file", p).At("path").Try("download the file")
	}
	var objects int
	if err := s.DB.QueryRow(ctx, countBelow, o.ID, maxObjects+1).Scan(&objects); err != nil {
		return Archive{}, fmt.Errorf("counting the files of %s: %w", p, err)
	}
	if objects > maxObjects {
		return Archive{}, errs.New(errs.Conflict, "the folder has more than %d files and folders", maxObjects).At("path").Try("download the folders in it, or use gpuaas storage cp")
	}
	return Archive{s, at, o}, nil
}

// WriteTo writes a zip archive. The names begin with that of the folder.
func (a Archive) WriteTo(ctx context.Context, to io.Writer) error {
	out := zip.NewWriter(to)
	q := listing.Query{Folder: a.Folder.Path, Recursive: true, Limit: pageSize}
	for written := 0; ; {
		page, err := listing.Service{Service: a.s}.List(ctx, a.at, q)
		if err != nil {
			return err
		}
		// The folder may have grown since it was counted.
		if written += len(page); written > 2*maxObjects {
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
		q.After = listing.PositionOf(page[len(page)-1], q)
	}
}

// add writes an object. Stored bytes are often compressed already, so they are not compressed again.
func (a Archive) add(ctx context.Context, out *zip.Writer, o storage.Object) error {
	h := &zip.FileHeader{Name: o.Path[max(len(a.Folder.Path)-1, 0):].String(), Method: zip.Store, Modified: o.UpdatedAt.UTC()}
	h.SetMode(0o644)
	if o.Type == storage.Folder {
		h.Name += "/"
		h.SetMode(0o755)
	}
	to, err := out.CreateHeader(h)
	if err != nil || o.Type == storage.Folder {
		return err
	}
	from, err := a.s.Blobs.Get(ctx, o.Key, 0, -1)
	if err != nil {
		return storage.Unavailable(err)
	}
	defer from.Close() //nolint:errcheck // it was read
	n, err := io.Copy(to, from)
	if err == nil && n != o.Size {
		return fmt.Errorf("the object store has %d of %d bytes of %s: %w", n, o.Size, o.ID, io.ErrUnexpectedEOF)
	}
	return err
}
