package source

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/gpuaas/gpuaas/gitops/source/pack"
)

// entry is one line of a tree.
type entry struct {
	name string
	mode filemode.FileMode
	hash plumbing.Hash
}

// malformedError is a complete object that Git would not write. It is an error of the author, and a new fetch would not
// change it.
type malformedError struct{ error }

func malformed(kind plumbing.ObjectType, hash plumbing.Hash, what string) error {
	return malformedError{fmt.Errorf("the %s %s %s", kind, hash, what)}
}

// tree returns the size of the largest tree object that is read. An entry has at most about 300 bytes: mode, a name of
// 255 bytes and a hash.
func (l Limits) tree() int64 { return max(1<<20, int64(l.Files)*300) }

func readTree(from pack.Objects, hash plumbing.Hash, most int64) ([]entry, error) {
	raw, err := pack.ReadObject(from, plumbing.TreeObject, hash, most)
	if err != nil {
		return nil, err
	}
	return parseTree(hash, raw)
}

// parseTree parses the raw bytes, because a name must not be interpreted before it is checked.
func parseTree(hash plumbing.Hash, raw []byte) (list []entry, err error) {
	list = make([]entry, 0, len(raw)/40)
	for len(raw) > 0 {
		mode, rest, ok := bytes.Cut(raw, []byte(" "))
		name, rest, also := bytes.Cut(rest, []byte{0})
		if !ok || !also || len(rest) < len(plumbing.ZeroHash) {
			return nil, malformed(plumbing.TreeObject, hash, "ends within an entry")
		}
		bits, err := strconv.ParseUint(string(mode), 8, 32)
		if err != nil || len(name) == 0 {
			return nil, malformed(plumbing.TreeObject, hash, "has an entry without mode or name")
		}
		e := entry{name: string(name), mode: filemode.FileMode(bits)}
		raw = rest[copy(e.hash[:], rest):]
		list = append(list, e)
	}
	return list, nil
}

// resolvePath returns the entry at a path below a tree.
func resolvePath(from pack.Objects, tree plumbing.Hash, path string, most int64) (entry, bool, error) {
	e := entry{mode: filemode.Dir, hash: tree}
	for name := range splitPath(path) {
		if e.mode != filemode.Dir {
			return entry{}, false, nil
		}
		list, err := readTree(from, e.hash, most)
		if err != nil {
			return entry{}, false, err
		}
		found := false
		for _, one := range list {
			if one.name == name {
				e, found = one, true
				break
			}
		}
		if !found {
			return entry{}, false, nil
		}
	}
	return e, true, nil
}
