package validate

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	schema "github.com/gpuaas/gpuaas/cue"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// Input is a tree, or the difference from the tree that the cache contains.
type Input struct {
	Tree string // hash of this tree
	// Files are all of them, or with Base at least those of Changed.
	Files            map[string][]byte
	Base             string // hash of the tree that the rest is against; empty: Files are all
	Changed, Removed []string
}

// Delta is the difference from the tree that the cache contains.
type Delta struct {
	Base    string           // its hash; empty: there was none
	Objects []desired.Object // new, changed, or elsewhere in their file; sorted as they are applied
	Removed []desired.Name
	Total   int // of the whole tree
}

// Cache validates one source whose tree changes again and again, at the cost of the change. It
// stores the results of all units of its tree, the indexes of the rules between objects, and, up to
// a limit, results of units of other trees, such as those of open pull requests.
type Cache struct {
	Limits Limits // of each child; zero: the defaults

	mu      sync.Mutex
	at      string // hash of the tree; empty: none yet
	units   map[string]entry
	folders map[string]map[string][]byte // CUE files by folder: one that changes needs the others
	rules   *rules
	pending map[string]*change // validated trees that may become the cached one
	parts   lru
}

// entry is one unit of the tree.
type entry struct {
	hash [sha256.Size]byte
	part *part
}

// change leads from one tree to another.
type change struct {
	base    string
	removed []string // units
	added   map[string]entry
	folders map[string]map[string][]byte // nil map: gone
}

// mostPending limits the validated trees that wait to be cached: the tracked branch's and those of
// pull requests.
const mostPending = 8

// Validate validates a tree and leaves the cache unchanged: Commit stores the tree. If Base is not
// the cached tree, Validate returns a conflict, and the caller reads the whole tree.
func (c *Cache) Validate(ctx context.Context, in Input) (Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin()
	if in.Base != "" && in.Base != c.at {
		return Result{}, errs.New(errs.Conflict, "the tree %.12s is not the one that is known", in.Base)
	}
	ch, sources := c.compare(in)
	if verdict, err := c.evaluate(ctx, ch, sources); err != nil || verdict != nil {
		return Result{Findings: verdict}, err
	}
	result := Result{Findings: c.checkRules(ch)}
	if len(result.Findings) > 0 {
		return result, nil
	}
	result.Delta = c.delta(ch)
	if in.Base == "" {
		result.Objects = c.all(ch)
	}
	if len(c.pending) >= mostPending {
		clear(c.pending)
	}
	c.pending[in.Tree] = ch
	return result, nil
}

// Commit makes a validated tree the base of later differences. It is called after the tree was
// applied. An unknown tree changes nothing.
func (c *Cache) Commit(tree string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.pending[tree]
	if ch == nil || ch.base != c.at {
		return
	}
	c.shift(ch)
	for _, name := range ch.removed {
		delete(c.units, name)
	}
	maps.Copy(c.units, ch.added)
	for dir, files := range ch.folders {
		if c.folders[dir] = files; len(files) == 0 {
			delete(c.folders, dir)
		}
	}
	c.rules.reset()
	c.at, c.pending = tree, map[string]*change{}
}

func (c *Cache) begin() {
	if c.rules != nil {
		return
	}
	c.units, c.folders, c.rules, c.pending = map[string]entry{}, map[string]map[string][]byte{}, newRules(), map[string]*change{}
	c.parts = lru{entries: map[[sha256.Size]byte]*list.Element{}}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
}

// compare finds the units that differ, and the files of those that are there.
func (c *Cache) compare(in Input) (*change, map[string]source) {
	ch := &change{base: c.at, added: map[string]entry{}, folders: map[string]map[string][]byte{}}
	changed, removed := in.Changed, in.Removed
	if in.Base == "" {
		changed = slices.Collect(maps.Keys(in.Files))
		removed = c.missing(in.Files)
	}
	sources := map[string]source{}
	dirs := map[string]bool{}
	for _, name := range changed {
		switch {
		case !document.Readable(name):
		case path.Ext(name) == ".cue":
			c.folder(ch, path.Dir(name))[name] = in.Files[name]
			dirs[path.Dir(name)] = true
		default:
			sources[name] = source{unit{name, []string{name}}, in.Files}
		}
	}
	for _, name := range removed {
		if path.Ext(name) == ".cue" {
			delete(c.folder(ch, path.Dir(name)), name)
			dirs[path.Dir(name)] = true
		} else if _, ok := c.units[name]; ok {
			ch.removed = append(ch.removed, name)
		}
	}
	for dir := range dirs {
		before, after := nameOf(c.folders[dir]), nameOf(ch.folders[dir])
		if before != "" && before != after {
			ch.removed = append(ch.removed, before)
		}
		if after != "" {
			sources[after] = source{unit{after, slices.Sorted(maps.Keys(ch.folders[dir]))}, ch.folders[dir]}
		}
	}
	for name, s := range sources {
		hash := s.hash()
		before, had := c.units[name]
		switch {
		case had && before.hash == hash:
			delete(sources, name)
			continue
		case had:
			ch.removed = append(ch.removed, name)
		}
		ch.added[name] = entry{hash: hash}
	}
	return ch, sources
}

// source is a unit with its files.
type source struct {
	unit
	files map[string][]byte
}

// schemaHash is part of the cache keys, so that the results of another build are not used.
var schemaHash = sync.OnceValue(func() [sha256.Size]byte {
	sum := sha256.New()
	entries, _ := schema.Schema.ReadDir("schema") // embedded; a broken one does not compile
	for _, e := range entries {
		src, _ := schema.Schema.ReadFile("schema/" + e.Name())
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", e.Name(), len(src), src)
	}
	return [sha256.Size]byte(sum.Sum(nil))
})

func (s source) hash() [sha256.Size]byte {
	sum := sha256.New()
	of := schemaHash()
	_, _ = sum.Write(of[:])
	for _, name := range s.paths {
		_, _ = fmt.Fprintf(sum, "%d %s %d\n", len(name), name, len(s.files[name]))
		_, _ = sum.Write(s.files[name])
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// missing lists the files of the tree that are not among these.
func (c *Cache) missing(files map[string][]byte) []string {
	var gone []string
	for name := range c.units {
		if _, ok := files[name]; !ok && path.Ext(name) != ".cue" {
			gone = append(gone, name)
		}
	}
	for _, folder := range c.folders {
		for name := range folder {
			if _, ok := files[name]; !ok {
				gone = append(gone, name)
			}
		}
	}
	return gone
}

// folder is a folder's CUE files as the change leaves them.
func (c *Cache) folder(ch *change, dir string) map[string][]byte {
	if ch.folders[dir] == nil {
		ch.folders[dir] = map[string][]byte{}
		maps.Copy(ch.folders[dir], c.folders[dir])
	}
	return ch.folders[dir]
}

// nameOf a folder's unit is its first file.
func nameOf(folder map[string][]byte) string {
	if len(folder) == 0 {
		return ""
	}
	return slices.Min(slices.Collect(maps.Keys(folder)))
}

// evaluate sends the units that are not cached to a child process. A verdict means that the child
// exceeded its limits.
func (c *Cache) evaluate(ctx context.Context, ch *change, sources map[string]source) ([]desired.Finding, error) {
	files := map[string][]byte{}
	for name, s := range sources {
		if p := c.parts.get(ch.added[name].hash); p != nil {
			ch.added[name] = entry{ch.added[name].hash, p}
			continue
		}
		for _, file := range s.paths {
			files[file] = s.files[file]
		}
	}
	if len(files) == 0 {
		return nil, nil
	}
	parts, verdict, err := runUnits(ctx, c.Limits, files)
	if err != nil || verdict != nil {
		return verdict, err
	}
	for name, p := range parts {
		u := ch.added[name]
		ch.added[name] = entry{u.hash, p}
		cost := 0
		for _, file := range sources[name].paths {
			cost += len(files[file])
		}
		c.parts.put(u.hash, p, cost)
	}
	return nil, nil
}

// shift moves the indexes along a change.
func (c *Cache) shift(ch *change) {
	for _, name := range ch.removed {
		c.rules.remove(c.units[name].part)
	}
	for _, name := range slices.Sorted(maps.Keys(ch.added)) {
		c.rules.add(ch.added[name].part)
	}
}

// back undoes shift.
func (c *Cache) back(ch *change) {
	for _, u := range ch.added {
		c.rules.remove(u.part)
	}
	for _, name := range ch.removed {
		c.rules.add(c.units[name].part)
	}
	c.rules.reset()
}

// checkRules checks the rules between objects for the tree after the change.
func (c *Cache) checkRules(ch *change) []desired.Finding {
	c.rules.reset()
	c.shift(ch)
	findings := c.rules.check()
	c.back(ch)
	return findings
}

func (c *Cache) delta(ch *change) *Delta {
	d := &Delta{Base: ch.base, Total: c.rules.total}
	there := map[string]bool{}
	for _, u := range ch.added {
		for i := range u.part.objects {
			o := &u.part.objects[i]
			there[o.name] = true
			d.Objects = append(d.Objects, o.object)
		}
		d.Total += len(u.part.objects)
	}
	for _, name := range ch.removed {
		objects := c.units[name].part.objects
		for i := range objects {
			if o := &objects[i]; !there[o.name] {
				d.Removed = append(d.Removed, desired.Name{Kind: o.object.Kind, Name: o.object.Name})
			}
		}
		d.Total -= len(objects)
	}
	inApplyOrder(d.Objects)
	return d
}

// all lists the objects of the tree that the change leads to.
func (c *Cache) all(ch *change) []desired.Object {
	var objects []desired.Object
	collect := func(p *part) {
		for i := range p.objects {
			objects = append(objects, p.objects[i].object)
		}
	}
	gone := map[string]bool{}
	for _, name := range ch.removed {
		gone[name] = true
	}
	for name, u := range c.units {
		if !gone[name] {
			collect(u.part)
		}
	}
	for _, u := range ch.added {
		collect(u.part)
	}
	inApplyOrder(objects)
	return objects
}

// lru caches parts by the hash of their unit, up to a sum of source bytes.
type lru struct {
	entries map[[sha256.Size]byte]*list.Element
	order   list.List // of remembered, newest in front
	bytes   int
}

type remembered struct {
	hash [sha256.Size]byte
	part *part
	cost int
}

// mostBytes of sources are remembered: four trees of the default limit.
const mostBytes = 64 << 20

func (l *lru) get(hash [sha256.Size]byte) *part {
	e := l.entries[hash]
	if e == nil {
		return nil
	}
	l.order.MoveToFront(e)
	r, _ := e.Value.(*remembered)
	return r.part
}

func (l *lru) put(hash [sha256.Size]byte, p *part, cost int) {
	if l.entries[hash] != nil {
		return
	}
	l.entries[hash] = l.order.PushFront(&remembered{hash, p, cost})
	for l.bytes += cost; l.bytes > mostBytes && l.order.Len() > 1; {
		last := l.order.Back()
		r, _ := l.order.Remove(last).(*remembered)
		delete(l.entries, r.hash)
		l.bytes -= r.cost
	}
}
