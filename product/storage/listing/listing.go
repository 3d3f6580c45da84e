// Package listing lists the files and folders of a folder, in the sequence of S3 or by time. It changes nothing.
package listing

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// Query selects a page of the objects of a folder.
type Query struct {
	Folder objectpath.Path
	// Recursive lists all that is below the folder.
	Recursive bool
	// Newest lists the objects that changed last first, instead of those with the lowest names.
	Newest bool
	After  Position
	Limit  int
}

// Position is the place of an object in a list.
type Position struct {
	Path    string    `json:"p,omitempty"` // below the folder; that of a folder ends with a slash
	Updated time.Time `json:"t,omitzero"`
	ID      uuid.UUID `json:"i,omitzero"`
}

// PositionOf returns the place after an object of a list of a folder.
func PositionOf(o storage.Object, q Query) Position {
	if q.Newest {
		return Position{Updated: o.UpdatedAt, ID: o.ID}
	}
	p := o.Path[len(q.Folder):].String()
	if o.Type == storage.Folder {
		p += "/"
	}
	return Position{Path: p}
}

// Service reads what the service of the files has stored.
type Service struct{ *storage.Service }

// List returns a page of the objects of a folder. The sequence by name is that of the paths, byte by byte, where the path of
// a folder ends with a slash. It is the sequence of S3.
func (s Service) List(ctx context.Context, at storage.Scope, q Query) ([]storage.Object, error) {
	folder, err := s.Stat(ctx, at, q.Folder)
	switch {
	case err != nil:
		return nil, err
	case folder.Type == storage.File:
		return nil, errs.New(errs.StorageObjectNotFound, "%q is a file", q.Folder).At("prefix").Try("list its folder")
	case q.Newest && q.Recursive:
		return nil, errs.Invalid("sort", "updated_at is possible without recursive only")
	case q.Newest:
		return s.newest(ctx, folder, q)
	}
	l := lister{s: s.Service, recursive: q.Recursive, limit: q.Limit}
	err = l.list(ctx, folder.ID, q.Folder, q.After.Path)
	return l.all, err
}

// lister collects a page of the objects below a folder.
type lister struct {
	s         *storage.Service
	recursive bool
	limit     int
	all       []storage.Object
}

// list adds the objects of a folder with greater paths than after, which is relative to the folder.
func (l *lister) list(ctx context.Context, folder uuid.UUID, p objectpath.Path, after string) error {
	if name, below, inside := strings.Cut(after, "/"); inside {
		after = name + "/"
		if err := l.resume(ctx, folder, append(slices.Clip(p), name), below); err != nil {
			return err
		}
	}
	for len(l.all) < l.limit {
		n := l.limit - len(l.all)
		page, err := pg.List(ctx, l.s.DB, "files", selectByName, storage.ScanObject, folder, after, n)
		if err != nil {
			return err
		}
		for _, o := range page {
			o.Path = append(slices.Clip(p), o.Name)
			if err := l.add(ctx, o); err != nil || len(l.all) == l.limit {
				return err
			}
		}
		if len(page) < n {
			return nil
		}
		last := page[len(page)-1]
		if after = last.Name; last.Type == storage.Folder {
			after += "/"
		}
	}
	return nil
}

func (l *lister) add(ctx context.Context, o storage.Object) error {
	l.all = append(l.all, o)
	if o.Type == storage.File || !l.recursive || len(l.all) == l.limit {
		return nil
	}
	return l.list(ctx, o.ID, o.Path, "")
}

// resume continues in a folder that an earlier page ended in, if it still exists.
func (l *lister) resume(ctx context.Context, parent uuid.UUID, p objectpath.Path, after string) error {
	if !l.recursive {
		return nil
	}
	found, err := pg.List(ctx, l.s.DB, "files", selectFolder, storage.ScanObject, parent, p.Name()+"/")
	if err != nil || len(found) == 0 {
		return err
	}
	return l.list(ctx, found[0].ID, p, after)
}

func (s Service) newest(ctx context.Context, folder storage.Object, q Query) ([]storage.Object, error) {
	if q.After.ID == uuid.Nil {
		q.After.Updated = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	all, err := pg.List(ctx, s.DB, "files", selectByTime, storage.ScanObject, folder.ID, q.After.Updated, q.After.ID, q.Limit)
	for i := range all {
		all[i].Path = append(slices.Clip(q.Folder), all[i].Name)
	}
	return all, err
}
