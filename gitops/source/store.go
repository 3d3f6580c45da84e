package source

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"

	"github.com/gpuaas/gpuaas/gitops/source/pack"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// store is the bare repository with everything that a source has fetched. All of it can be fetched
// again, so it is written without fsync and deleted at the first sign of corruption.
type store struct {
	dir     string
	root    *os.Root
	lock    *os.File
	packs   pack.Packs
	tips    map[string]plumbing.Hash // by the name that was fetched
	shallow map[plumbing.Hash]bool   // commits whose parents are left out
	trees   []tree                   // read before, oldest first
}

// tree describes the hash of a Tree: its folders and the hashes of their trees.
type tree struct {
	Hash    string            `json:"hash"`
	Folders map[string]string `json:"folders"`
}

// mostTips limits the refs whose commits are advertised to the server as present. Each of them
// reduces the fetch; branches of pull requests are created and deleted.
const mostTips = 32

// mostTrees limits the trees that can be the base of a difference. The applied tree is among the
// last; pull requests are read in between.
const mostTrees = 64

// state is the file next to the packs.
type state struct {
	Tips    map[string]string `json:"tips"`
	Shallow []string          `json:"shallow"`
	Trees   []tree            `json:"trees"`
}

const stateFile = "gpuaas.json"

// open locks the folder for one read and loads the changes of other processes.
func (s *store) open() error {
	if s.root == nil {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return fmt.Errorf("making the store: %w", err)
		}
		root, err := os.OpenRoot(s.dir)
		if err != nil {
			return fmt.Errorf("opening the store: %w", err)
		}
		s.root, s.packs.Cache = root, cache.NewObjectLRU(pack.CacheBytes)
	}
	lock, err := s.root.OpenFile("lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("opening the lock of the store: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return errs.New(errs.Unavailable, "another process is fetching into %s", s.dir)
	}
	s.lock = lock
	if err := s.load(); err != nil {
		return s.clear()
	}
	return nil
}

// release unlocks the store.
func (s *store) release() {
	// Closing the file is not enough: a child process that is being started in another goroutine
	// has a copy for a moment.
	_ = syscall.Flock(int(s.lock.Fd()), syscall.LOCK_UN)
	_ = s.lock.Close()
	s.lock = nil
}

// load reads the state file and the packs. Another process may have changed both since the last read.
func (s *store) load() error {
	var kept state
	text, err := s.root.ReadFile(stateFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("reading the store: %w", err)
	default:
		if err := json.Unmarshal(text, &kept); err != nil {
			return fmt.Errorf("reading the store: %w", err)
		}
	}
	if err := s.packs.Load(s.root); err != nil {
		return err
	}
	s.tips, s.shallow, s.trees = map[string]plumbing.Hash{}, map[plumbing.Hash]bool{}, kept.Trees
	for name, hash := range kept.Tips {
		// A crash between the state file and a pack leaves a name without its commit. Such a name is dropped, so that the
		// server sends its objects again.
		if h := plumbing.NewHash(hash); s.packs.Has(h) {
			s.tips[name] = h
		}
	}
	for _, hash := range kept.Shallow {
		s.shallow[plumbing.NewHash(hash)] = true
	}
	return nil
}

// clear deletes everything except the lock file: another process may be waiting for the lock.
func (s *store) clear() error {
	s.packs.Close()
	s.tips, s.shallow, s.trees = map[string]plumbing.Hash{}, map[plumbing.Hash]bool{}, nil
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("clearing the store: %w", err)
	}
	for _, e := range entries {
		if e.Name() == "lock" {
			continue
		}
		if err := s.root.RemoveAll(e.Name()); err != nil {
			return fmt.Errorf("clearing the store: %w", err)
		}
	}
	return nil
}

// prepare makes the folder a repository that git itself can read.
func (s *store) prepare() error {
	for _, dir := range []string{pack.Folder, "refs"} {
		if err := s.root.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("making the store: %w", err)
		}
	}
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/none\n", "config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"} {
		if err := s.root.WriteFile(name, []byte(text), 0o600); err != nil {
			return fmt.Errorf("making the store: %w", err)
		}
	}
	return nil
}

// save writes the state file. A crash before it costs another fetch.
func (s *store) save() error {
	kept := state{Tips: map[string]string{}, Trees: s.trees}
	for name, hash := range s.tips {
		kept.Tips[name] = hash.String()
	}
	for hash := range s.shallow {
		kept.Shallow = append(kept.Shallow, hash.String())
	}
	slices.Sort(kept.Shallow)
	if err := s.replace("shallow", []byte(strings.Join(append(kept.Shallow, ""), "\n"))); err != nil {
		return err
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encoding the store: %w", err)
	}
	return s.replace(stateFile, text)
}

// writeIndex renames the finished file, so that a crash leaves no partial index. A pack without an index is ignored.
func (s *store) writeIndex(name string, index *idxfile.MemoryIndex) error {
	f, err := s.root.Create(name + ".new")
	if err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	to := bufio.NewWriter(f)
	_, err = idxfile.NewEncoder(to).Encode(index)
	if err = errors.Join(err, to.Flush(), f.Close()); err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	if err := s.root.Rename(name+".new", name); err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	return nil
}

// replace renames a finished file, so that a crash leaves either the old or the new text.
func (s *store) replace(name string, text []byte) error {
	if err := s.root.WriteFile(name+".new", text, 0o600); err != nil {
		return fmt.Errorf("writing the store: %w", err)
	}
	if err := s.root.Rename(name+".new", name); err != nil {
		return fmt.Errorf("writing the store: %w", err)
	}
	return nil
}

// mostPacks limits the packs: each fetch adds one, and each lookup searches all.
const mostPacks = 50

// outgrown reports whether a new store is cheaper than this one. The store has no garbage collection: forced pushes and
// deleted branches leave objects that nothing refers to.
func (s *store) outgrown(l Limits) bool {
	var bytes int64
	for _, one := range s.packs.List {
		info, err := s.root.Stat(path.Join(pack.Folder, one.Name+".pack"))
		if err != nil {
			return true
		}
		bytes += info.Size()
	}
	return len(s.packs.List) > mostPacks || bytes > 2*l.bounds().Bytes
}

// tree returns the trees of a hash as they were read.
func (s *store) tree(hash string) (tree, bool) {
	for _, t := range s.trees {
		if t.Hash == hash {
			return t, true
		}
	}
	return tree{}, false
}

// cache stores the trees of a tree hash.
func (s *store) cache(t tree) error {
	if t.Hash == "" || slices.ContainsFunc(s.trees, func(o tree) bool { return o.Hash == t.Hash }) {
		return nil
	}
	s.trees = append(s.trees, t)
	if len(s.trees) > mostTrees {
		s.trees = s.trees[1:]
	}
	return s.save()
}

// negotiation returns the commits that the server need not send again.
func (s *store) negotiation() (haves, shallow []plumbing.Hash) {
	for _, h := range s.tips {
		if !slices.Contains(haves, h) {
			haves = append(haves, h)
		}
	}
	for h := range s.shallow {
		shallow = append(shallow, h)
	}
	return haves, shallow
}
