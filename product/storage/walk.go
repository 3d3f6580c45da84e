package storage

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// walked is the part of a path that exists: the folder of the project, then an object for each name. Names that only some
// file systems can distinguish lead to the same object.
type walked struct {
	path  objectpath.Path
	found []Object
}

// walk reads the objects along a path. A project without stored objects has no outermost folder yet.
func walk(ctx context.Context, q pg.Queryer, at Scope, p objectpath.Path) (walked, error) {
	rows, err := q.Query(ctx, selectPath, at.Project, p.FoldAll())
	if err != nil {
		return walked{}, fmt.Errorf("reading the path %s: %w", p, err)
	}
	return collectPath(rows, p)
}

func collectPath(rows pgx.Rows, p objectpath.Path) (walked, error) {
	found, err := pgx.CollectRows(rows, ScanObject)
	if err != nil {
		return walked{}, fmt.Errorf("reading the path %s: %w", p, err)
	}
	for i := range found {
		found[i].Path = p[:i]
	}
	return walked{p, found}, nil
}

// object returns the object at the path.
func (w walked) object() (Object, bool) {
	if len(w.found) != len(w.path)+1 || w.clash() != nil {
		return Object{}, false
	}
	return w.found[len(w.path)], true
}

// read returns the object at the path, or the error of a read.
func (w walked) read() (Object, error) {
	if len(w.path) == 0 && len(w.found) == 0 { // nothing was stored yet
		return Object{Type: Folder}, nil
	}
	o, ok := w.object()
	if !ok {
		return o, notFound(w.path)
	}
	return o, nil
}

// clash returns an error for a name of the path that exists in another spelling, and for a file where the path has a
// folder.
func (w walked) clash() error {
	for i, o := range w.found[min(1, len(w.found)):] {
		switch {
		case o.Name != w.path[i]:
			return errs.New(errs.AlreadyExists, "%q and the existing %q are one name on some file systems", w.path[:i+1], append(w.path[:i:i], o.Name)).At("path").
				Try("choose another name, or use the existing spelling").With("existing", append(w.path[:i:i], o.Name).String())
		case o.Type == File && i+1 < len(w.path):
			return errs.New(errs.Conflict, "%q is a file", w.path[:i+1]).At("path").Try("choose another folder")
		}
	}
	return nil
}

// folders returns the folders of the path that are missing, outermost first, with the last one as the parent of its name.
func (w walked) folders(upTo int) (missing []Object, parent uuid.UUID) {
	parent = w.found[min(len(w.found)-1, upTo)].ID
	for i := len(w.found); i <= upTo; i++ {
		folder := Object{ID: uuid.Must(uuid.NewV7()), Parent: parent, Name: w.path[i-1], Type: Folder, Path: w.path[:i]}
		folder.deepest, folder.longest = w.below(i)
		missing, parent = append(missing, folder), folder.ID
	}
	return missing, parent
}

// below returns the depth and the length of the path below its first i names.
func (w walked) below(i int) (depth, bytes int) {
	return len(w.path) - i, len(w.path[i:].String())
}

// grow raises the depth and the length that the existing folders of a path know of what is below them. deepest and longest
// are those below the path.
func (w walked) grow(b *pgx.Batch, deepest, longest int) {
	for i, o := range w.found[:min(len(w.found), len(w.path))] {
		depth, bytes := w.below(i)
		if depth, bytes = depth+deepest, bytes+longest; depth > o.deepest || bytes > o.longest {
			b.Queue(growFolder, o.ID, depth, bytes)
		}
	}
}

// ScanObject reads a row of ObjectColumns.
func ScanObject(row pgx.CollectableRow) (o Object, err error) {
	var parent, key *uuid.UUID
	var deletedPath *string
	err = row.Scan(&o.ID, &parent, &o.Name, &o.Type, &o.Size, &key, &o.SHA256, &o.MediaType, &o.CreatedBy, &o.CreatedAt, &o.UpdatedAt, &o.DeletedAt, &o.PurgeAt, &deletedPath, &o.deepest, &o.longest, &o.Metadata)
	if parent != nil {
		o.Parent = *parent
	}
	if key != nil {
		o.Key = *key
	}
	if deletedPath != nil {
		o.DeletedPath = *deletedPath
	}
	return o, err
}
