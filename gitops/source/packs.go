package source

import (
	"bytes"
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

// packs are the objects of a store: its packs, newest first, with their indexes in
// memory. go-git's own storage would read every index anew for each new pack.
type packs struct {
	list  []*pack
	cache cache.Object
}

type pack struct {
	name  string // pack-<checksum>
	file  billy.File
	index *idxfile.MemoryIndex
	*packfile.Packfile
}

// cached are the bases of differences that are kept while a tree is read.
const cached = 4 * cache.MiByte

func (p *packs) close() {
	for _, one := range p.list {
		_ = one.file.Close()
	}
	p.list = nil
}

// find looks into the newest pack first: what changed last is asked for most.
func (p *packs) find(hash plumbing.Hash) (*pack, int64, error) {
	for _, one := range p.list {
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

func (p *packs) has(hash plumbing.Hash) bool {
	_, _, err := p.find(hash)
	return err == nil
}

// EncodedObject reads an object.
func (p *packs) EncodedObject(kind plumbing.ObjectType, hash plumbing.Hash) (plumbing.EncodedObject, error) {
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
func (p *packs) EncodedObjectSize(hash plumbing.Hash) (int64, error) {
	one, at, err := p.find(hash)
	if err != nil {
		return 0, err
	}
	return one.GetSizeByOffset(at)
}

const packFolder = "objects/pack"

// names of the packs that are whole on disk: with an index.
func packNames(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), packFolder)
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

// load opens the packs that are on disk, unless they are the ones that are open.
func (p *packs) load(root *os.Root) error {
	names, err := packNames(root)
	if err != nil {
		return err
	}
	if slices.Equal(names, p.names()) {
		return nil
	}
	p.close()
	for _, name := range names {
		one, err := openPack(root, name, nil, p.cache)
		if err != nil {
			return err
		}
		p.list = append(p.list, one)
	}
	return nil
}

func (p *packs) names() []string {
	var names []string
	for _, one := range p.list {
		names = append(names, one.name)
	}
	slices.Sort(names)
	return names
}

// openPack opens a pack; with the index that was just made, or the one on disk.
func openPack(root *os.Root, name string, index *idxfile.MemoryIndex, shared cache.Object) (*pack, error) {
	base := path.Join(packFolder, name)
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
	return &pack{name, file, index, packfile.NewPackfileWithCache(index, nil, file, shared, 0)}, nil
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

// sameEnd: a pack that ends otherwise than its index says was cut.
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
