package pack

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the checksum that packs end with; names are collision-proof sums
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// Packs contains the packs of a store, newest first, with their indexes in memory. go-git's own
// storage would read every index again for each new pack.
type Packs struct {
	List  []*Pack
	Cache cache.Object
}

type Pack struct {
	Name  string // pack-<checksum>
	file  billy.File
	index *idxfile.MemoryIndex
	*packfile.Packfile
}

// CacheBytes limits the delta bases that are cached while a tree is read.
const CacheBytes = 4 * cache.MiByte

func (p *Packs) Close() {
	for _, one := range p.List {
		_ = one.file.Close()
	}
	p.List = nil
}

// find searches the newest pack first, since most requests are for recent objects.
func (p *Packs) find(hash plumbing.Hash) (*Pack, int64, error) {
	for _, one := range p.List {
		at, err := one.index.FindOffset(hash)
		if err == nil {
			return one, at, nil
		}
		if !errors.Is(err, plumbing.ErrObjectNotFound) {
			return nil, 0, fmt.Errorf("looking for %s: %w", hash, err)
		}
	}
	return nil, 0, plumbing.ErrObjectNotFound
}

func (p *Packs) Has(hash plumbing.Hash) bool {
	_, _, err := p.find(hash)
	return err == nil
}

// EncodedObject reads an object.
func (p *Packs) EncodedObject(kind plumbing.ObjectType, hash plumbing.Hash) (plumbing.EncodedObject, error) {
	one, _, err := p.find(hash)
	if err != nil {
		return nil, err
	}
	o, err := one.Get(hash)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", hash, err)
	}
	if kind != plumbing.AnyObject && o.Type() != kind {
		return nil, plumbing.ErrObjectNotFound
	}
	return o, nil
}

// EncodedObjectSize reads the size of an object from its header.
func (p *Packs) EncodedObjectSize(hash plumbing.Hash) (int64, error) {
	one, at, err := p.find(hash)
	if err != nil {
		return 0, err
	}
	return one.GetSizeByOffset(at)
}

const Folder = "objects/pack"

// names of the packs that are whole on disk: with an index.
func packNames(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing packs: %w", err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".idx"); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// Load opens the packs that are on disk, unless they are the ones that are open.
func (p *Packs) Load(root *os.Root) error {
	names, err := packNames(root)
	if err != nil {
		return err
	}
	if slices.Equal(names, p.names()) {
		return nil
	}
	p.Close()
	for _, name := range names {
		one, err := Open(root, name, nil, p.Cache)
		if err != nil {
			return err
		}
		p.List = append(p.List, one)
	}
	return nil
}

func (p *Packs) names() []string {
	var names []string
	for _, one := range p.List {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	return names
}

// Open opens a pack; with the index that was just made, or the one on disk.
func Open(root *os.Root, name string, index *idxfile.MemoryIndex, shared cache.Object) (*Pack, error) {
	base := path.Join(Folder, name)
	if index == nil {
		var err error
		if index, err = readIndex(root, base+".idx"); err != nil {
			return nil, fmt.Errorf("reading the index of %s: %w", name, err)
		}
	}
	if err := sameEnd(root, base+".pack", index.PackfileChecksum); err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	file, err := osfs.New(root.Name()).Open(base + ".pack")
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	return &Pack{name, file, index, packfile.NewPackfileWithCache(index, nil, file, shared, 0)}, nil
}

func readIndex(root *os.Root, name string) (*idxfile.MemoryIndex, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	index := idxfile.NewMemoryIndex()
	return index, idxfile.NewDecoder(f).Decode(index)
}

// sameEnd rejects a truncated pack: its end differs from the checksum in the index.
func sameEnd(root *os.Root, name string, sum plumbing.Hash) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	var end plumbing.Hash
	if _, err := f.Seek(-int64(len(end)), io.SeekEnd); err != nil {
		return err
	}
	if _, err := io.ReadFull(f, end[:]); err != nil {
		return err
	}
	if !bytes.Equal(end[:], sum[:]) {
		return errors.New("the pack is not the one that was indexed")
	}
	return nil
}

// Checksum compares the last twenty bytes of a pack with the hash of all bytes before them.
func Checksum(f *os.File) (sum plumbing.Hash, err error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size < 32 {
		return sum, fmt.Errorf("the pack has %d bytes: %w", size, io.ErrUnexpectedEOF)
	}
	h := sha1.New() //nolint:gosec // see the import
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, size-20)); err != nil {
		return sum, fmt.Errorf("reading the pack: %w", err)
	}
	if _, err := f.ReadAt(sum[:], size-20); err != nil {
		return sum, fmt.Errorf("reading the pack: %w", err)
	}
	if !bytes.Equal(h.Sum(nil), sum[:]) {
		return sum, errors.New("the pack's checksum is another one: it was cut, or changed on its way")
	}
	return sum, nil
}
