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

// Basis is what a plan was made from, as far as another basis would make it
// another plan: what is asked for, where the source and each touched object
// stood, and who lived on what is taken away. What the source declares and does
// not change is named by the commit that it stands at.
//
// Who merely pays another price is not in it: on a busy fleet nobody could ever
// approve what they have read.
type Basis struct {
	Source  string          `json:"source"`
	Commit  string          `json:"commit"`
	Base    string          `json:"base"`
	Asked   string          `json:"asked"` // hash of what is wanted and of what goes
	Stood   []ObjectVersion `json:"stood"`
	Beneath []Beneath       `json:"beneath"`
}

// ObjectVersion is where a touched object was.
type ObjectVersion struct {
	Object     string `json:"object"` // Kind/name, with its scope
	Generation int64  `json:"generation"`
	Version    int64  `json:"version"`
}

// Beneath is an allocation that stood on what is taken away.
type Beneath struct {
	Allocation string `json:"allocation"`
	On         string `json:"on"` // node, or SKU
}

func basisOf(c Change, e effect) Basis {
	b := Basis{Source: c.Source, Commit: c.Commit, Base: c.Base, Asked: hashOfDesired(e.meant), Stood: []ObjectVersion{}, Beneath: []Beneath{}}
	stood := func(o desired.Object) {
		name := string(o.Kind) + "/" + o.Name
		if o.Scope != "" {
			name = string(o.Kind) + "/" + o.Scope + "/" + o.Name
		}
		b.Stood = append(b.Stood, ObjectVersion{name, o.Generation, o.ResourceVersion})
	}
	for _, o := range e.deleted {
		stood(o)
	}
	for _, p := range slices.Concat(e.changed, e.adopted) {
		stood(p.Old)
	}
	slices.SortFunc(b.Stood, func(x, y ObjectVersion) int { return strings.Compare(x.Object, y.Object) })
	for _, a := range e.beneath {
		on := a.SKU
		if n, ok := e.nodes[a.Node]; ok && (e.removed[a.Node] || e.recut[a.Node]) {
			on = n.Name
		}
		b.Beneath = append(b.Beneath, Beneath{a.ID.String(), on})
	}
	return b
}

// hashOfDesired hashes the wanted objects without their places: a line that moved asks for
// nothing else.
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

// Moved says in people's words what is no longer as it was when the old plan was
// made. It is empty where both have one hash.
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
	before, after := byObject(was.Stood), byObject(is.Stood)
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
	lived, live := byAllocation(was.Beneath), byAllocation(is.Beneath)
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

func byAllocation(list []Beneath) map[string]string {
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
