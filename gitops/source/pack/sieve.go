// Package pack stores and reads the packs of a Git repository within limits: bytes, objects, the size of
// an object, the sum of all, and the memory of a chain of deltas. It trusts nothing that a pack states
// about itself, and does not know trees or commits.
package pack

import (
	"bufio"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
)

// Bounds are the limits of one pack. A megabyte of pack can contain a gigabyte of blob, and a few
// deltas can make a gigabyte of a kilobyte, so no limit follows from another.
type Bounds struct {
	Bytes    int64 // of the pack as received
	objects  uint32
	object   int64 // of one object, whole
	inflated int64 // of all of them: what working through the pack may cost
	chain    int64 // of an object and what it is a difference to, together: memory
}

// BoundsOf returns the bounds of a pack for the limits of a source. A repository has a history and other
// files, so the bounds are multiples; the constants apply to the smallest limits.
func BoundsOf(files int, fileBytes, treeBytes int64) Bounds {
	return Bounds{
		Bytes:    64<<20 + 4*treeBytes,
		objects:  uint32(min(100_000+10*int64(files), 1<<24)), //nolint:gosec // below 2^24
		object:   max(16<<20, fileBytes),
		inflated: 128<<20 + 8*treeBytes,
		chain:    32 << 20,
	}
}

// longestChain of differences is ten times what git makes.
const longestChain = 512

// packed is one object in a pack.
type packed struct {
	at, body, end int64 // its header, its data, and what follows
	kind          plumbing.ObjectType
	size          int64 // of its data; of a delta, not of what it makes
	whole         int64 // of what it makes
	base          int64
	baseHash      plumbing.Hash
	hash          plumbing.Hash // zero until known
}

func (p packed) delta() bool { return p.kind.IsDelta() }

// ExcessError rejects a pack because reading it would cost too much.
type ExcessError struct{ What string }

func (e ExcessError) Error() string { return e.What }

func excess(format string, args ...any) error { return ExcessError{fmt.Sprintf(format, args...)} }

// sieve reads a pack once without storing its contents and rejects it as soon as it exceeds a
// limit.
type sieve struct {
	Bounds
	in       *offsetReader
	zip      io.ReadCloser
	inflated int64
}

// scan finds the objects of a pack.
func (b Bounds) scan(ctx context.Context, pack *os.File) ([]packed, error) {
	info, err := pack.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the pack: %w", err)
	}
	// The checksum at its end is no object.
	s := sieve{Bounds: b, in: &offsetReader{r: bufio.NewReaderSize(io.LimitReader(pack, info.Size()-20), 64<<10)}}
	count, err := s.header()
	if err != nil {
		return nil, err
	}
	list := make([]packed, 0, min(count, 1<<12))
	for range count {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := s.object()
		if err != nil {
			return nil, fmt.Errorf("object %d of %d at %d: %w", len(list)+1, count, p.at, err)
		}
		list = append(list, p)
	}
	return list, nil
}

func (s *sieve) header() (uint32, error) {
	var head [12]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return 0, fmt.Errorf("reading the pack's header: %w", Cut(err))
	}
	if string(head[:4]) != "PACK" || binary.BigEndian.Uint32(head[4:]) != 2 {
		return 0, errors.New("this is no pack")
	}
	count := binary.BigEndian.Uint32(head[8:])
	if count > s.objects {
		return 0, excess("the repository sends %d objects at once, at most %d are read", count, s.objects)
	}
	return count, nil
}

func (s *sieve) object() (p packed, err error) {
	p.at = s.in.n
	if err := s.objectHeader(&p); err != nil {
		return p, Cut(err)
	}
	p.body = s.in.n
	if s.zip == nil {
		s.zip, err = zlib.NewReader(s.in)
	} else {
		err = s.zip.(zlib.Resetter).Reset(s.in, nil) //nolint:forcetypeassert // zlib promises it
	}
	if err != nil {
		return p, Cut(err)
	}
	if p.delta() {
		err = s.deltaBody(&p)
	} else {
		err = s.wholeBody(&p)
	}
	p.end = s.in.n
	return p, err
}

func (s *sieve) objectHeader(p *packed) error {
	first, err := s.in.ReadByte()
	if err != nil {
		return err
	}
	p.kind = plumbing.ObjectType(first >> 4 & 7)
	p.size = int64(first & 15)
	for shift := 4; first&0x80 != 0; shift += 7 {
		if first, err = s.in.ReadByte(); err != nil {
			return err
		}
		if shift > 50 {
			return excess("an object claims a size beyond all measure")
		}
		p.size |= int64(first&0x7f) << shift
	}
	if p.size > s.Bounds.object {
		return excess("an object has %d bytes, at most %d are read", p.size, s.Bounds.object)
	}
	switch p.kind {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		return nil
	case plumbing.OFSDeltaObject:
		return s.baseOffset(p)
	case plumbing.REFDeltaObject:
		_, err := io.ReadFull(s.in, p.baseHash[:])
		return err
	case plumbing.InvalidObject, plumbing.AnyObject:
	}
	return fmt.Errorf("there is no kind %d of objects", p.kind)
}

func (s *sieve) baseOffset(p *packed) error {
	c, err := s.in.ReadByte()
	if err != nil {
		return err
	}
	back := int64(c & 0x7f)
	for c&0x80 != 0 {
		if c, err = s.in.ReadByte(); err != nil {
			return err
		}
		if back > 1<<48 {
			return errors.New("a difference is to nothing")
		}
		back = (back+1)<<7 | int64(c&0x7f)
	}
	if p.base = p.at - back; back <= 0 || p.base < 12 {
		return errors.New("a difference is to nothing")
	}
	return nil
}

// wholeBody inflates an object to nowhere but its hash.
func (s *sieve) wholeBody(p *packed) error {
	p.whole = p.size
	if err := s.cost(p.size); err != nil {
		return err
	}
	sum := plumbing.NewHasher(p.kind, p.size)
	n, err := io.Copy(sum, io.LimitReader(s.zip, p.size+1))
	if err != nil {
		return Cut(err)
	}
	if n != p.size {
		return fmt.Errorf("an object promises %d bytes and has others", p.size)
	}
	p.hash = sum.Sum()
	return nil
}

// deltaBody reads what a difference makes, and passes over the rest.
func (s *sieve) deltaBody(p *packed) error {
	head := bufio.NewReaderSize(io.LimitReader(s.zip, p.size+1), 512)
	if _, err := binary.ReadUvarint(head); err != nil {
		return Cut(err)
	}
	whole, err := binary.ReadUvarint(head)
	if err != nil {
		return Cut(err)
	}
	if whole > uint64(s.Bounds.object) { //nolint:gosec // a bound is positive
		return excess("a difference makes %d bytes, at most %d are read", whole, s.Bounds.object)
	}
	p.whole = int64(whole) //nolint:gosec // not above the bound
	if err := s.cost(p.whole + p.size); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, head); err != nil {
		return Cut(err)
	}
	return nil
}

func (s *sieve) cost(n int64) error {
	if s.inflated += n; s.inflated > s.Bounds.inflated {
		return excess("the repository sends more than %d bytes once inflated", s.Bounds.inflated)
	}
	return nil
}

// Cut maps all kinds of an early end to one error.
func Cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// offsetReader counts the bytes that were read. It implements io.ByteReader, so that inflating
// reads no more than it needs.
type offsetReader struct {
	r *bufio.Reader
	n int64
}

func (o *offsetReader) Read(b []byte) (int, error) {
	n, err := o.r.Read(b)
	o.n += int64(n)
	return n, err
}

func (o *offsetReader) ReadByte() (byte, error) {
	b, err := o.r.ReadByte()
	if err == nil {
		o.n++
	}
	return b, err
}

// sumOf returns the CRC that an index stores of the packed object.
func (p packed) sumOf(pack io.ReaderAt) (uint32, error) {
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(pack, p.at, p.end-p.at)); err != nil {
		return 0, fmt.Errorf("reading the pack: %w", err)
	}
	return sum.Sum32(), nil
}

// AtMost fails where io.LimitReader would pretend an end.
type AtMost struct {
	R    io.Reader
	Left int64
	What string
}

func (a *AtMost) Read(b []byte) (int, error) {
	if a.Left <= 0 {
		return 0, excess("%s", a.What)
	}
	n, err := a.R.Read(b[:min(int64(len(b)), a.Left)])
	a.Left -= int64(n)
	return n, err
}
