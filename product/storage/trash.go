package storage

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// Removal describes what a deletion deletes, and how.
type Removal struct {
	Path      objectpath.Path
	Recursive bool // also a folder that is not empty
	Permanent bool // it cannot be restored
	If        Condition
}

// Delete deletes an object, with all that is below it. It changes one row. The object can be restored until its PurgeAt, and
// counts until then.
func (s *Service) Delete(ctx context.Context, ch identity.Change[Object], r Removal) (Object, error) {
	return s.apply(ctx, ch, r.Path, func(tx pg.Queryer, at Scope, w walked, _ *pgx.Batch) (Object, error) {
		o, err := w.read()
		if err == nil {
			err = r.If.check(o, true)
		}
		if err == nil && o.Type == Folder && !r.Recursive {
			err = onlyEmpty(ctx, tx, o)
		}
		if err != nil {
			return o, err
		}
		life := s.Limits(at.Tenant, at.Project).Trash
		if r.Permanent {
			life = 0
		}
		b := &pgx.Batch{}
		b.Queue(trashObject, o.ID, life, r.Path.String()).QueryRow(func(row pgx.Row) error { return row.Scan(&o.DeletedAt, &o.PurgeAt) })
		s.note(b, at, "storage_object.delete", o.ID, map[string]any{"path": r.Path.String(), "type": o.Type, "purge_at": s.Clock.Now().Add(life)})
		o.DeletedPath = r.Path.String()
		return o, tx.SendBatch(ctx, b).Close()
	})
}

func onlyEmpty(ctx context.Context, tx pg.Queryer, o Object) error {
	var empty bool
	if err := tx.QueryRow(ctx, isEmpty, o.ID).Scan(&empty); err != nil {
		return fmt.Errorf("reading the folder %s: %w", o.Path, err)
	}
	if !empty {
		return errs.New(errs.Conflict, "the folder %q is not empty", o.Path).At("path").Try("use recursive=true to delete all that is in it")
	}
	return nil
}

// Deleted returns the deleted objects of a project that can be restored, oldest first. What was below a deleted folder
// belongs to it.
func (s *Service) Deleted(ctx context.Context, at Scope, after uuid.UUID, limit int) ([]Object, error) {
	return pg.List(ctx, s.DB, "deleted files", selectTrash, ScanObject, at.Project, after, limit)
}

func deletedOne(ctx context.Context, tx pg.Queryer, at Scope, id uuid.UUID) (Object, error) {
	o, err := pg.One(ctx, tx, "deleted file", selectInTrash, ScanObject, at.Project, id)
	if errs.CodeOf(err) == errs.NotFound {
		return o, errs.New(errs.StorageObjectNotFound, "the project has no such deleted object").At("object_id")
	}
	return o, err
}

// Purge ends the time in which a deleted object can be restored.
func (s *Service) Purge(ctx context.Context, ch identity.Change[Object], id uuid.UUID) (Object, error) {
	return s.apply(ctx, ch, nil, func(tx pg.Queryer, at Scope, _ walked, _ *pgx.Batch) (Object, error) {
		o, err := deletedOne(ctx, tx, at, id)
		if err != nil {
			return o, err
		}
		b := &pgx.Batch{}
		b.Queue(purgeNow, id).QueryRow(func(row pgx.Row) error { return row.Scan(&o.PurgeAt) })
		s.note(b, at, "storage_object.purge", id, map[string]any{"path": o.DeletedPath, "type": o.Type})
		return o, tx.SendBatch(ctx, b).Close()
	})
}

// Restore restores a deleted object to its folder, or to another path.
func (s *Service) Restore(ctx context.Context, ch identity.Change[Object], id uuid.UUID, to objectpath.Path) (Object, error) {
	return s.apply(ctx, ch, to, func(tx pg.Queryer, at Scope, w walked, b *pgx.Batch) (Object, error) {
		o, err := deletedOne(ctx, tx, at, id)
		if err != nil {
			return o, err
		}
		if !o.PurgeAt.After(s.Clock.Now()) {
			return o, errs.New(errs.Conflict, "the object is being purged")
		}
		if len(to) == 0 {
			if w, err = s.formerPath(ctx, tx, at, o); err != nil {
				return o, err
			}
		}
		if err := w.accepts(o, nil); err != nil {
			return o, err
		}
		parent := w.found[len(w.path)-1]
		b.Queue(untrashObject, id, parent.ID, w.path.Name(), objectpath.Fold(w.path.Name()))
		w.grow(b, o.deepest, longestBelow(o))
		s.note(b, at, "storage_object.restore", id, map[string]any{"path": w.path.String(), "type": o.Type})
		o.Path, o.Parent, o.Name, o.DeletedAt, o.PurgeAt, o.DeletedPath, o.UpdatedAt = w.path, parent.ID, w.path.Name(), nil, nil, "", s.Clock.Now()
		return o, nil
	})
}

// formerPath returns the path of the folder of a deleted object today, which may have been renamed, and its name.
func (s *Service) formerPath(ctx context.Context, tx pg.Queryer, at Scope, o Object) (walked, error) {
	above, err := pg.List(ctx, tx, "folders", selectFolders, ScanObject, o.Parent)
	if err != nil {
		return walked{}, err
	}
	if len(above) == 0 || above[0].ID != at.Project.UUID {
		return walked{}, errs.New(errs.Conflict, "the folder of %q is deleted", o.DeletedPath).At("object_id").Try("restore the folder, or give another path")
	}
	p := make(objectpath.Path, 0, len(above))
	for _, folder := range above[1:] {
		p = append(p, folder.Name)
	}
	return walk(ctx, tx, at, append(p, o.Name))
}

func (s *Service) note(b *pgx.Batch, at Scope, action string, id uuid.UUID, after map[string]any) {
	audit.Queue(b, audit.Entry{Tenant: at.Tenant, By: at.By, Action: action, Target: s.URN(at, id), After: after})
}
