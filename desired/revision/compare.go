package revision

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/desired"
)

// Snapshot contains the validated objects of one source at one commit.
type Snapshot struct {
	Source     string // its name
	Repository string
	Commit     string
	TreeHash   string
	Meta       Meta
	Objects    []desired.Object
	// Base is the hash of the tree to which Objects and Removed are relative. It is empty if Objects are complete. Total is
	// the number of all objects.
	Base    string
	Removed []desired.Name
	Total   int
	// Since is the revision that was applied when the snapshot was read. A replica that read earlier and applies later would
	// otherwise return the source to an older tree. Nil is not compared.
	Since *int64
	// Generated marks a snapshot that no user wrote. It may be empty.
	Generated bool
}

// Meta is the metadata of a commit.
type Meta struct {
	Author      string
	AuthorEmail string
	Committer   string // e-mail address
	Message     string // its first line
	At          time.Time
	Signer      string // the verified signer
}

// Pair is an object before and after a change.
type Pair struct{ Old, New desired.Object }

// Difference lists what a snapshot changes. An object that was removed before is created again with its old uid.
type Difference struct {
	Created   []desired.Object
	Adopted   []Pair // from another owner, which offered the adoption
	Changed   []Pair
	Deleted   []desired.Object
	Foreign   []desired.Finding // names that belong to another owner
	Unchanged int               // the number of objects that stay, changed or not
}

// Empty reports whether the difference changes nothing.
func (d Difference) Empty() bool {
	return len(d.Created)+len(d.Adopted)+len(d.Changed)+len(d.Deleted) == 0
}

// written returns the objects that the difference writes.
func (d Difference) written() []desired.Object {
	list := slices.Clone(d.Created)
	for _, p := range slices.Concat(d.Adopted, d.Changed) {
		list = append(list, p.New)
	}
	return list
}

// Had returns the number of objects of the source before the change.
func (d Difference) Had() int { return d.Unchanged + len(d.Deleted) }

// Compare computes the changes of a snapshot from the objects of its source and those of other owners with the same names.
// It is pure.
func Compare(have []desired.Object, snap Snapshot) (d Difference) {
	byName := make(map[desired.Name]desired.Object, len(have))
	for _, o := range have {
		if old, ok := byName[o.Key()]; !ok || old.DeletedAt != nil {
			byName[o.Key()] = o // an object hides a tombstone of its name
		}
	}
	wanted := make(map[desired.Name]bool, len(snap.Objects))
	for _, want := range snap.Objects {
		wanted[want.Key()] = true
		old, ok := byName[want.Key()]
		d.place(old, want, ok, snap.Source)
	}
	if snap.Base != "" {
		d.Unchanged = snap.Total - len(d.Created) - len(d.Adopted)
	}
	gone := d.gone(snap)
	for _, o := range have {
		if !wanted[o.Key()] && gone(o) {
			d.Deleted = append(d.Deleted, o)
		}
	}
	return d
}

// gone returns a function that reports whether the snapshot no longer contains an object of its source.
func (Difference) gone(snap Snapshot) func(desired.Object) bool {
	removed := make(map[desired.Name]bool, len(snap.Removed))
	for _, n := range snap.Removed {
		removed[n] = true
	}
	return func(o desired.Object) bool {
		return o.DeletedAt == nil && o.Source.Owner == desired.OwnerGit && o.Source.Name == snap.Source && (snap.Base == "" || removed[o.Key()])
	}
}

func (d *Difference) place(old, want desired.Object, known bool, source string) {
	if !known {
		d.Created = append(d.Created, want)
		return
	}
	want.UID = old.UID
	ours := old.Source.Owner == desired.OwnerGit && old.Source.Name == source
	switch {
	case old.DeletedAt != nil:
		d.Created = append(d.Created, want)
	case !ours && old.Adopt != nil && old.Adopt.Source == source:
		d.Adopted = append(d.Adopted, Pair{old, want})
	case !ours:
		d.Foreign = append(d.Foreign, foreign(old, want))
	case old.SpecHash != desired.Hash(want.Spec), moved(old, want):
		d.Changed = append(d.Changed, Pair{old, want})
		d.Unchanged++
	default:
		d.Unchanged++
	}
}

func foreign(old, want desired.Object) desired.Finding {
	f := desired.Finding{
		Code: desired.CodeManagedByAPI, Path: want.Source.Path, Line: want.Source.Line, Column: want.Source.Column, Object: want.Key().String(),
		Message: "is managed by the API (managed_by_api)", Expected: "a name that is free, or the object adopted by this source first",
	}
	if old.Source.Owner == desired.OwnerGit {
		f.Code, f.Message = desired.CodeManagedByGit, "is managed by the source "+old.Source.Name+" at "+old.Source.String()+" (managed_by_git)"
	}
	return f
}

// moved reports whether labels, annotations or the position in the file differ. They are updated without a new generation:
// users read where to edit from the position.
func moved(old, want desired.Object) bool {
	return !maps.Equal(old.Labels, want.Labels) || !maps.Equal(old.Annotations, want.Annotations) ||
		old.Source.Path != want.Source.Path || old.Source.Line != want.Source.Line || old.Source.Column != want.Source.Column
}
