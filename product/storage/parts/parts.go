// Package parts divides a file into the parts of an upload, and reads their bytes.
package parts

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// smallest is the size that the server chooses. The number of parts limits it from below.
const smallest = 16 << 20

// Layout is the division of a file.
type Layout struct {
	Size int64 // negative: not known
	Part int64 // of each part but the last; 0: any
}

// Choose returns the layout of a file. part is the requested size of the parts, or 0.
func Choose(size, part int64) (Layout, error) {
	least := max((size+blob.MaxParts-1)/blob.MaxParts, 1)
	switch {
	case part < 0 || part > blob.MaxPart:
		return Layout{}, errs.Invalid("part_size_bytes", "is %d; from %d to %d are possible", part, int64(blob.MinPart), int64(blob.MaxPart))
	case size < 0:
		return Layout{-1, part}, nil
	case part == 0:
		const unit = 1 << 20
		return Layout{size, max(smallest, (least+unit-1)/unit*unit)}, nil
	case part < least:
		return Layout{}, errs.Invalid("part_size_bytes", "is %d, which leads to more than %d parts", part, blob.MaxParts).Try("choose %d or more, or none", least)
	case part < blob.MinPart && part < size:
		return Layout{}, errs.Invalid("part_size_bytes", "is %d; the smallest is %d", part, int64(blob.MinPart))
	}
	return Layout{size, part}, nil
}

// Count is the number of parts, or 0 where the size is not known. An empty file has one part.
func (l Layout) Count() int64 {
	if l.Size < 0 {
		return 0
	}
	return max(1, (l.Size+l.Part-1)/l.Part)
}

// SizeOf returns the size that a part must have. size is the announced one, or negative.
func (l Layout) SizeOf(number int, size int64) (int64, error) {
	last := l.Count()
	if last == 0 {
		last = blob.MaxParts
	}
	if number < 1 || int64(number) > last {
		return 0, errs.Invalid("number", "is %d; the upload has parts from 1 to %d", number, last)
	}
	want := min(l.Part, l.Size-int64(number-1)*l.Part)
	switch {
	case l.Size >= 0 && size >= 0 && size != want:
		return 0, errs.Invalid("Content-Length", "of part %d is %d; the part has %d bytes", number, size, want)
	case l.Size >= 0:
		return want, nil
	case size < 0:
		return 0, errs.Invalid("Content-Length", "is missing; the upload has announced no size")
	case size > blob.MaxPart:
		return 0, errs.Invalid("Content-Length", "is %d; a part can have %d bytes", size, int64(blob.MaxPart))
	}
	return size, nil
}

// Whole returns an error unless the parts, which ascend, make the file.
func (l Layout) Whole(chosen []blob.Part) error {
	if l.Size < 0 {
		return large(chosen)
	}
	var missing []int
	next := 0
	for number := 1; number <= int(l.Count()) && len(missing) < 10; number++ {
		if next < len(chosen) && chosen[next].Number == number {
			next++
		} else {
			missing = append(missing, number)
		}
	}
	if len(missing) > 0 {
		return Missing(missing...)
	}
	return nil
}

// large returns an error for parts that an object store may reject, so that all of them do.
func large(chosen []blob.Part) error {
	if len(chosen) == 0 {
		return errs.New(errs.Conflict, "no part of the upload has arrived").At("parts").Try("send at least one part")
	}
	for _, p := range chosen[:len(chosen)-1] {
		if p.Size < blob.MinPart {
			return errs.Invalid("parts", "has part %d with %d bytes; all but the last need %d", p.Number, p.Size, int64(blob.MinPart))
		}
	}
	return nil
}

// Missing returns the error of parts that have not arrived.
func Missing(numbers ...int) error {
	return errs.New(errs.Conflict, "parts %v have not arrived, or have other bytes", numbers).At("parts").Try("send them again, and complete the upload").With("missing", numbers)
}

// Reader computes the SHA-256 of a part. It fails at the end of other bytes than announced, so that the object store does not
// store them.
type Reader struct {
	from       io.Reader
	size, read int64
	want       []byte
	sum        hash.Hash
	failed     error
}

// NewReader reads size bytes with a SHA-256, or with any if want is nil.
func NewReader(from io.Reader, size int64, want []byte) *Reader {
	return &Reader{from: from, size: size, want: want, sum: sha256.New()}
}

// Sum returns the SHA-256 of the bytes that were read.
func (r *Reader) Sum() []byte { return r.sum.Sum(nil) }

// Err returns the failure of the body, and not of the object store.
func (r *Reader) Err() error { return r.failed }

func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	_, _ = r.sum.Write(p[:n])
	r.read += int64(n)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		r.failed = Broken(err)
	case err != nil && r.read == r.size && r.want != nil && !bytes.Equal(r.want, r.Sum()):
		r.failed = errs.Invalid("Content-Digest", "differs from the SHA-256 of the received bytes").Try("send the part again")
	}
	if r.failed != nil {
		return n, r.failed
	}
	return n, err
}

// Broken returns the error of a body that the client has not sent to its end.
func Broken(err error) error {
	if errs.CodeOf(err) != errs.Internal {
		return err
	}
	return errs.New(errs.BadRequest, "the body broke off").Try("upload the file again").Because(fmt.Errorf("reading an upload: %w", err))
}
