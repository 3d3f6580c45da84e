package storage

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// apply runs a change of the tree of a project: it locks the project and reads the objects along a path. The response is
// stored in the same transaction. The key of the request is claimed with the lock, and the response is stored with the
// statements that do leaves in its batch, because a round trip costs more than a statement.
func (s *Service) apply(ctx context.Context, ch identity.Change[Object], p objectpath.Path, do func(tx pg.Queryer, at Scope, w walked, b *pgx.Batch) (Object, error)) (o Object, err error) {
	at := ScopeOf(ch.Caller)
	k := keyed[Object]{s.Identity, &ch}
	first, last := &pgx.Batch{}, &pgx.Batch{}
	k.queueClaim(first)
	err = s.inProject(ctx, first, at, p, func(tx pg.Queryer, w walked) (err error) {
		if o, err = do(tx, at, w, last); err != nil {
			return err
		}
		k.queueEnd(last, o)
		if err := tx.SendBatch(ctx, last).Close(); err != nil {
			return err
		}
		failpoint.Hit("storage.change.before_commit")
		return nil
	})
	if err == nil {
		failpoint.Hit("storage.change.after_commit")
	}
	return o, wrap(err, "changing", p)
}

// CreateFolder creates a folder and the folders that are missing above it.
func (s *Service) CreateFolder(ctx context.Context, ch identity.Change[Object], p objectpath.Path) (Object, error) {
	return s.apply(ctx, ch, p, func(_ pg.Queryer, at Scope, w walked, b *pgx.Batch) (Object, error) {
		if err := w.clash(); err != nil {
			return Object{}, err
		}
		if old, exists := w.object(); exists {
			return old, errs.New(errs.AlreadyExists, "there is a %s at %q", old.Type, p).At("path")
		}
		missing, _ := w.folders(len(p))
		for i := range missing {
			missing[i].CreatedBy, missing[i].CreatedAt, missing[i].UpdatedAt = at.By.Actor, s.Clock.Now(), s.Clock.Now()
			queueInsert(b, at, missing[i])
		}
		w.grow(b, 0, 0)
		s.queueUsage(b, at, change{objects: int64(len(missing))})
		return missing[len(missing)-1], nil
	})
}

// SetMetadata replaces the metadata of a file or folder.
func (s *Service) SetMetadata(ctx context.Context, ch identity.Change[Object], p objectpath.Path, m Metadata) (Object, error) {
	return s.apply(ctx, ch, p, func(_ pg.Queryer, _ Scope, w walked, b *pgx.Batch) (Object, error) {
		o, err := w.read()
		if err != nil {
			return o, err
		}
		o.Metadata, o.UpdatedAt = m, s.Clock.Now()
		b.Queue(setMetadata, o.ID, m.orEmpty())
		return o, nil
	})
}

// Rename moves a file, or a folder with all that is below it. It changes one row.
func (s *Service) Rename(ctx context.Context, ch identity.Change[Object], from, to objectpath.Path, c Condition) (Object, error) {
	return s.apply(ctx, ch, from, func(tx pg.Queryer, at Scope, w walked, b *pgx.Batch) (Object, error) {
		o, err := w.read()
		if err != nil {
			return o, err
		}
		if err := c.check(o, true); err != nil {
			return o, err
		}
		dest, err := walk(ctx, tx, at, to)
		if err != nil {
			return o, err
		}
		if err := dest.accepts(o, from); err != nil {
			return o, err
		}
		parent := dest.found[len(to)-1]
		b.Queue(moveObject, o.ID, parent.ID, to.Name(), objectpath.Fold(to.Name()))
		dest.grow(b, o.deepest, longestBelow(o))
		o.Parent, o.Name, o.Path, o.UpdatedAt = parent.ID, to.Name(), to, s.Clock.Now()
		return o, nil
	})
}

// longestBelow is the length that the paths below a folder add to its own, with the slash.
func longestBelow(o Object) int {
	if o.longest == 0 {
		return 0
	}
	return o.longest + 1
}

// accepts returns an error where an object cannot be moved to the path.
func (w walked) accepts(o Object, from objectpath.Path) error {
	to := w.path
	if len(from) > 0 && o.Type == Folder && from.Contains(to) && len(to) > len(from) {
		return errs.New(errs.Conflict, "%q is below %q", to, from).At("to").Try("choose a folder outside of it")
	}
	// Another spelling of the same name is no other object.
	if last := len(to); len(w.found) == last+1 && w.found[last].ID == o.ID {
		w.found = w.found[:last]
	} else if other, exists := w.object(); exists {
		return errs.New(errs.AlreadyExists, "there is a %s at %q", other.Type, to).At("to").Try("delete it, or choose another name")
	}
	if err := w.clash(); err != nil {
		return err
	}
	if len(w.found) < len(to) {
		return errs.New(errs.StorageObjectNotFound, "there is no folder %q", to.Folder()).At("to").Try("create the folder first")
	}
	return fits(o, to)
}

// fits returns an error where the paths below a moved folder would be longer or deeper than possible.
func fits(o Object, to objectpath.Path) error {
	if n := len(to) + o.deepest; n > objectpath.MaxDepth {
		return errs.Invalid("to", "leads to paths of %d folders and names; %d are possible", n, objectpath.MaxDepth)
	}
	if n := len(to.String()) + longestBelow(o); n > objectpath.MaxBytes {
		return errs.Invalid("to", "leads to paths of %d bytes; %d are possible", n, objectpath.MaxBytes)
	}
	return nil
}

// NewCopy describes a copy of a file.
type NewCopy struct {
	From, To objectpath.Path
	FromIf   Condition // of the original
	If       Condition // of what the copy replaces
	Changed  *Described
}

// Described has the media type and the metadata of a copy that differs from its original.
type Described struct {
	MediaType string
	Metadata  Metadata
}

// Copy copies a file: the copy has the backend object of its original, and counts with its bytes like any other file.
func (s *Service) Copy(ctx context.Context, ch identity.Change[Object], n NewCopy) (Object, error) {
	return s.apply(ctx, ch, n.From, func(tx pg.Queryer, at Scope, w walked, _ *pgx.Batch) (Object, error) {
		original, err := w.read()
		switch {
		case err != nil:
			return original, err
		case original.Type == Folder:
			return original, errs.New(errs.Conflict, "%q is a folder", n.From).At("from").Try("copy its files one by one")
		}
		if err := n.FromIf.check(original, true); err != nil {
			return original, err
		}
		dest, err := walk(ctx, tx, at, n.To)
		if err != nil {
			return original, err
		}
		old, err := dest.writable(n.If)
		if err != nil {
			return original, err
		}
		o := Object{Key: original.Key, Size: original.Size, SHA256: original.SHA256, MediaType: original.MediaType, Metadata: original.Metadata}
		if n.Changed != nil {
			o.MediaType, o.Metadata = n.Changed.MediaType, n.Changed.Metadata
		}
		return o, s.putFile(ctx, tx, at, dest, old, &o, change{})
	})
}

// Stat returns the object at a path.
func (s *Service) Stat(ctx context.Context, at Scope, p objectpath.Path) (Object, error) {
	w, err := walk(ctx, s.DB, at, p)
	if err != nil {
		return Object{}, err
	}
	o, err := w.read()
	if o.ID == uuid.Nil && err == nil {
		o.ID = at.Project.UUID
	}
	return o, err
}
