package pack

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// indexer computes the hashes of a pack that has passed the sieve. go-git's indexer caches up to 96
// MiB of inflated objects; this one stores an object and its delta base, and no more.
type indexer struct {
	Bounds
	ctx    context.Context //nolint:containedctx // of one pack; the walk is recursive
	pack   *os.File
	list   []packed
	byBase map[int64][]int         // differences, by the place of their base
	byHash map[plumbing.Hash][]int // and by its name
	left   int
}

// Index makes the index of a pack.
func (b Bounds) Index(ctx context.Context, pack *os.File, sum plumbing.Hash) (*idxfile.MemoryIndex, error) {
	list, err := b.scan(ctx, pack)
	if err != nil {
		return nil, err
	}
	if err := ends20(pack, list); err != nil {
		return nil, err
	}
	x := indexer{Bounds: b, ctx: ctx, pack: pack, list: list, byBase: map[int64][]int{}, byHash: map[plumbing.Hash][]int{}}
	for i, p := range list {
		switch p.kind { //nolint:exhaustive // the others need no base
		case plumbing.OFSDeltaObject:
			x.byBase[p.base] = append(x.byBase[p.base], i)
		case plumbing.REFDeltaObject:
			x.byHash[p.baseHash] = append(x.byHash[p.baseHash], i)
		default:
			continue
		}
		x.left++
	}
	if err := x.resolve(); err != nil {
		return nil, err
	}
	return x.encode(sum)
}

// ends20 checks that the last object is followed by the checksum and nothing else.
func ends20(pack *os.File, list []packed) error {
	info, err := pack.Stat()
	if err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	end := int64(12)
	if len(list) > 0 {
		end = list[len(list)-1].end
	}
	if info.Size() != end+20 {
		return fmt.Errorf("the pack has %d bytes behind its objects", info.Size()-end)
	}
	return nil
}

// resolve works the differences out, from each whole object on.
func (x *indexer) resolve() error {
	for i, p := range x.list {
		if p.delta() || x.leaf(p) {
			continue
		}
		body, err := x.body(p)
		if err != nil {
			return err
		}
		if err := x.children(x.list[i], p.kind, body, int64(len(body)), 1); err != nil {
			return err
		}
	}
	if x.left > 0 {
		return errors.New("the pack has differences to objects that it does not have")
	}
	return nil
}

func (x *indexer) leaf(p packed) bool { return len(x.byBase[p.at]) == 0 && len(x.byHash[p.hash]) == 0 }

// children hashes the objects that are deltas of one object. live is the number of bytes in memory.
func (x *indexer) children(base packed, kind plumbing.ObjectType, from []byte, live int64, depth int) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	if depth > longestChain {
		return excess("differences are made of differences, more than %d times", longestChain)
	}
	named := x.byHash[base.hash]
	delete(x.byHash, base.hash) // or a difference that makes its own base would have itself as a child
	for _, list := range [][]int{x.byBase[base.at], named} {
		for _, i := range list {
			p := &x.list[i]
			if !p.hash.IsZero() {
				continue // made already, from another copy of its base
			}
			if live+p.whole+p.size > x.chain {
				return excess("an object is made of differences to more than %d bytes", x.chain)
			}
			delta, err := x.body(*p)
			if err != nil {
				return err
			}
			whole, err := packfile.PatchDelta(from, delta)
			if err != nil {
				return fmt.Errorf("making the object at %d: %w", p.at, err)
			}
			x.left--
			p.hash = plumbing.ComputeHash(kind, whole)
			if x.leaf(*p) {
				continue
			}
			if err := x.children(*p, kind, whole, live+p.whole, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *indexer) body(p packed) ([]byte, error) {
	z, err := zlib.NewReader(bufio.NewReader(io.NewSectionReader(x.pack, p.body, p.end-p.body)))
	if err != nil {
		return nil, fmt.Errorf("reading the object at %d: %w", p.at, err)
	}
	var to bytes.Buffer
	to.Grow(int(p.size) + bytes.MinRead)
	if _, err := to.ReadFrom(io.LimitReader(z, p.size+1)); err != nil {
		return nil, fmt.Errorf("reading the object at %d: %w", p.at, err)
	}
	return to.Bytes(), nil
}

func (x *indexer) encode(sum plumbing.Hash) (*idxfile.MemoryIndex, error) {
	var w idxfile.Writer
	if err := w.OnHeader(uint32(len(x.list))); err != nil { //nolint:gosec // no more than the header said
		return nil, fmt.Errorf("indexing: %w", err)
	}
	for _, p := range x.list {
		crc, err := p.sumOf(x.pack)
		if err != nil {
			return nil, err
		}
		w.Add(p.hash, uint64(p.at), crc) //nolint:gosec // an offset
	}
	if err := w.OnFooter(sum); err != nil {
		return nil, fmt.Errorf("indexing: %w", err)
	}
	return w.Index()
}
