package preview

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
)

// Basis contains the inputs of a plan whose change makes the plan stale: the request, the applied
// commit, the version of each touched object, and the live allocations on removed slots. The commit
// identifies the unchanged objects of the source.
//
// Allocations that only pay another price are not part of it. On a busy fleet they change every
// minute, and no plan could be approved.
type Basis struct {
	Source   string          `json:"source"`
	Commit   string          `json:"commit"`
	Base     string          `json:"base"`
	Request  string          `json:"asked"` // hash of what is wanted and of what goes
	Versions []ObjectVersion `json:"stood"`
	Affected []Affected      `json:"beneath"`
}

// ObjectVersion identifies the version of a touched object.
type ObjectVersion struct {
	Object     string `json:"object"` // Kind/name, with its scope
	Generation int64  `json:"generation"`
	Version    int64  `json:"version"`
}

// Affected is a live allocation on a removed slot.
type Affected struct {
	Allocation string `json:"allocation"`
	On         string `json:"on"` // node, or SKU
}

func basisOf(c Change, e effect) Basis {
	b := Basis{Source: c.Source, Commit: c.Commit, Base: c.Base, Request: hashOfDesired(e.meant), Versions: []ObjectVersion{}, Affected: []Affected{}}
	stood := func(o desired.Object) {
		name := string(o.Kind) + "/" + o.Name
		if o.Scope != "" {
			name = string(o.Kind) + "/" + o.Scope + "/" + o.Name
		}
		b.Versions = append(b.Versions, ObjectVersion{name, o.Generation, o.ResourceVersion})
	}
	for _, o := range e.deleted {
		stood(o)
	}
	for _, p := range slices.Concat(e.changed, e.adopted) {
		stood(p.Old)
	}
	slices.SortFunc(b.Versions, func(x, y ObjectVersion) int { return strings.Compare(x.Object, y.Object) })
	for _, a := range e.affected {
		on := a.SKU
		if n, ok := e.nodes[a.Node]; ok && (e.removed[a.Node] || e.resliced[a.Node]) {
			on = n.Name
		}
		b.Affected = append(b.Affected, Affected{a.ID.String(), on})
	}
	return b
}

// hashOfDesired hashes the requested objects without their positions: a moved line requests no
// other change.
func hashOfDesired(m meant) string {
	type want struct {
		Action            Action
		Kind, Scope, Name string
		Spec              string
		Labels            map[string]string `json:",omitempty"`
		Annotations       map[string]string `json:",omitempty"`
	}
	sum := sha256.New()
	write := func(a Action, o desired.Object) {
		w := want{Action: a, Kind: string(o.Kind), Scope: o.Scope, Name: o.Name}
		if a != Delete {
			w.Spec, w.Labels, w.Annotations = desired.Hash(o.Spec), o.Labels, o.Annotations
		}
		text, _ := json.Marshal(w) // texts alone
		sum.Write(append(text, '\n'))
	}
	for _, o := range m.created {
		write(Create, o)
	}
	for _, p := range m.changed {
		write(Modify, p.New)
	}
	for _, p := range m.adopted {
		write(Adopt, p.New)
	}
	for _, o := range m.deleted {
		write(Delete, o)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func (b Basis) hash() string {
	text, _ := json.Marshal(b) // texts and numbers alone
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Moved lists what has changed since the old plan was made. It is empty if both plans have one
// hash.
func Moved(old, now Plan) []string {
	if old.Hash == now.Hash {
		return []string{}
	}
	list := []string{}
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	was, is := old.Basis, now.Basis
	if was.Base != is.Base {
		say("%s is at %s, was %s", was.Source, cmp.Or(short(is.Base), "nothing"), cmp.Or(short(was.Base), "nothing"))
	}
	if was.Commit != is.Commit {
		say("the commit is %s, was %s", short(is.Commit), short(was.Commit))
	}
	before, after := byObject(was.Versions), byObject(is.Versions)
	for _, name := range union(before, after) {
		a, had := before[name]
		b, has := after[name]
		switch {
		case !had:
			say("%s is at generation %d, and was not to be changed", name, b.Generation)
		case !has:
			say("%s was at generation %d, and is not changed by this any more", name, a.Generation)
		case a.Generation != b.Generation:
			say("%s: generation %d, was %d", name, b.Generation, a.Generation)
		case a.Version != b.Version:
			say("%s: version %d, was %d", name, b.Version, a.Version)
		}
	}
	lived, live := byAllocation(was.Affected), byAllocation(is.Affected)
	for _, id := range union(lived, live) {
		_, had := lived[id]
		_, has := live[id]
		switch {
		case !had:
			say("allocation %s started on %s", id, live[id])
		case !has:
			say("allocation %s ended on %s", id, lived[id])
		}
	}
	if len(list) == 0 {
		say("the request has changed")
	}
	return list
}

func byObject(list []ObjectVersion) map[string]ObjectVersion {
	m := make(map[string]ObjectVersion, len(list))
	for _, s := range list {
		m[s.Object] = s
	}
	return m
}

func byAllocation(list []Affected) map[string]string {
	m := make(map[string]string, len(list))
	for _, b := range list {
		m[b.Allocation] = b.On
	}
	return m
}

func union[V any](a, b map[string]V) []string {
	all := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(all)
	return slices.Compact(all)
}
