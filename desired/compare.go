package desired

import (
	"maps"
	"slices"
	"time"
)

// Snapshot is what one source declares at one commit, validated.
type Snapshot struct {
	Source     string // its name
	Repository string
	Commit     string
	TreeHash   string
	Meta       Meta
	Objects    []Object
	// Base is the hash of the tree that Objects and Removed are the difference
	// from; empty where Objects are all there are. Total counts all of them.
	Base    string
	Removed []Name
	Total   int
	// Since is the revision that the source stood at when this was read. Whoever
	// was slower looks again instead of taking the source back to what he read.
	// Nil is not compared.
	Since *int64
	// Generated says that no person wrote this: it may be empty on purpose.
	Generated bool
}

// Meta is what the commit says of itself.
type Meta struct {
	Author      string
	AuthorEmail string
	Message     string // its first line
	At          time.Time
	Signer      string // whose signature was verified
}

// Pair is an object that changes: as it is declared now, and as it would be.
type Pair struct{ Old, New Object }

// Difference is what a snapshot changes. What was declared and removed before is
// created again under its old uid.
type Difference struct {
	Created []Object
	Adopted []Pair // from another owner, who let it go
	Changed []Pair
	Deleted []Object
	Foreign []Finding // names that belong to another owner
	Kept    int       // what the source had and keeps, changed or not
}

// Empty says that nothing would be written.
func (d Difference) Empty() bool {
	return len(d.Created)+len(d.Adopted)+len(d.Changed)+len(d.Deleted) == 0
}

// written are the objects as they would be.
func (d Difference) written() []Object {
	list := slices.Clone(d.Created)
	for _, p := range slices.Concat(d.Adopted, d.Changed) {
		list = append(list, p.New)
	}
	return list
}

// Had is how many objects the source declared before.
func (d Difference) Had() int { return d.Kept + len(d.Deleted) }

// Compare is pure: what a snapshot changes, given what its source and the other
// owners hold under the same names.
func Compare(have []Object, snap Snapshot) (d Difference) {
	byName := make(map[Name]Object, len(have))
	for _, o := range have {
		if old, ok := byName[o.Key()]; !ok || old.DeletedAt != nil {
			byName[o.Key()] = o // a living object hides a tombstone of its name
		}
	}
	wanted := make(map[Name]bool, len(snap.Objects))
	for _, want := range snap.Objects {
		wanted[want.Key()] = true
		old, ok := byName[want.Key()]
		d.place(old, want, ok, snap.Source)
	}
	if snap.Base != "" {
		d.Kept = snap.Total - len(d.Created) - len(d.Adopted)
	}
	gone := d.gone(snap)
	for _, o := range have {
		if !wanted[o.Key()] && gone(o) {
			d.Deleted = append(d.Deleted, o)
		}
	}
	return d
}

// gone tells what the snapshot no longer declares.
func (Difference) gone(snap Snapshot) func(Object) bool {
	removed := make(map[Name]bool, len(snap.Removed))
	for _, n := range snap.Removed {
		removed[n] = true
	}
	return func(o Object) bool {
		return o.DeletedAt == nil && o.Source.Owner == OwnerGit && o.Source.Name == snap.Source && (snap.Base == "" || removed[o.Key()])
	}
}

func (d *Difference) place(old, want Object, known bool, source string) {
	if !known {
		d.Created = append(d.Created, want)
		return
	}
	want.UID = old.UID
	ours := old.Source.Owner == OwnerGit && old.Source.Name == source
	switch {
	case old.DeletedAt != nil:
		d.Created = append(d.Created, want)
	case !ours && old.Adopt != nil && old.Adopt.Source == source:
		d.Adopted = append(d.Adopted, Pair{old, want})
	case !ours:
		d.Foreign = append(d.Foreign, foreign(old, want))
	case old.SpecHash != Hash(want.Spec), moved(old, want):
		d.Changed = append(d.Changed, Pair{old, want})
		d.Kept++
	default:
		d.Kept++
	}
}

func foreign(old, want Object) Finding {
	f := Finding{
		Code: CodeManagedByAPI, Path: want.Source.Path, Line: want.Source.Line, Column: want.Source.Column, Object: want.Key().String(),
		Message: "is managed by the API (managed_by_api)", Expected: "a name that is free, or the object adopted by this source first",
	}
	if old.Source.Owner == OwnerGit {
		f.Code, f.Message = CodeManagedByGit, "is managed by the source "+old.Source.Name+" at "+old.Source.String()+" (managed_by_git)"
	}
	return f
}

// moved: the place in the file is shown to people who must edit it, so it is
// kept true, as labels are; neither raises the generation.
func moved(old, want Object) bool {
	return !maps.Equal(old.Labels, want.Labels) || !maps.Equal(old.Annotations, want.Annotations) ||
		old.Source.Path != want.Source.Path || old.Source.Line != want.Source.Line || old.Source.Column != want.Source.Column
}
