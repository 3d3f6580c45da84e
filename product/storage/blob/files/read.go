package files

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path"
	"slices"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// Get opens a range. Its WriteTo passes files to the writer, so that net/http can use sendfile.
func (s *Store) Get(ctx context.Context, id uuid.UUID, offset, length int64) (io.ReadCloser, error) {
	name := objectPath(id)
	f, err := s.root.Open(name)
	if err != nil {
		return nil, missing(err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !info.IsDir() {
		r := &fileReader{f: f, rest: cut(info.Size(), offset, length)}
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return r, nil
	}
	list, err := s.readList(name)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, missing(err)
	}
	r := &partsReader{ctx: ctx, store: s, dir: name, rest: cut(list.size(), offset, length)}
	for i, p := range list.parts {
		if offset < p.Size {
			r.parts, r.offset = list.parts[i:], offset
			break
		}
		offset -= p.Size
	}
	return r, nil
}

// cut returns the number of bytes of a range that exist.
func cut(size, offset, length int64) int64 {
	rest := max(size-offset, 0)
	if length < 0 {
		return rest
	}
	return min(rest, length)
}

// fileReader reads the rest of a range of one file.
type fileReader struct {
	f    *os.File
	rest int64
}

func (r *fileReader) Read(p []byte) (int, error) {
	l := io.LimitedReader{R: r.f, N: r.rest}
	n, err := l.Read(p)
	r.rest = l.N
	return n, err
}

// WriteTo writes all that is left.
func (r *fileReader) WriteTo(w io.Writer) (int64, error) { return r.WriteSpan(w, r.rest) }

// WriteSpan gives the writer the file with a limit, which is the form for which TCP connections use sendfile.
func (r *fileReader) WriteSpan(w io.Writer, size int64) (int64, error) {
	n, err := io.Copy(w, &io.LimitedReader{R: r.f, N: min(size, r.rest)})
	r.rest -= n
	return n, err
}

func (r *fileReader) Close() error { return r.f.Close() }

// partsReader reads a range across the files of an object of parts. One file is open at a time.
type partsReader struct {
	ctx    context.Context //nolint:containedctx // of one call
	store  *Store
	dir    string
	parts  []blob.Part // those not yet opened
	offset int64       // in the first of them
	rest   int64
	open   *fileReader
}

// next opens the file of the next part. It returns io.EOF after the last byte of the range.
func (r *partsReader) next() error {
	for r.open == nil || r.open.rest == 0 {
		switch {
		case r.rest == 0:
			return io.EOF
		case r.ctx.Err() != nil:
			return r.ctx.Err()
		case len(r.parts) == 0:
			return io.ErrUnexpectedEOF
		}
		if err := r.Close(); err != nil {
			return err
		}
		p, offset := r.parts[0], r.offset
		f, err := r.store.root.Open(path.Join(r.dir, partName(p.Number)))
		if err != nil {
			return missing(err)
		}
		r.open = &fileReader{f: f, rest: min(p.Size-offset, r.rest)}
		r.parts, r.offset = r.parts[1:], 0
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			return err
		}
	}
	return nil
}

func (r *partsReader) Read(p []byte) (int, error) {
	if err := r.next(); err != nil {
		return 0, err
	}
	n, err := r.open.Read(p)
	r.rest -= int64(n)
	return n, truncated(err)
}

func (r *partsReader) WriteTo(w io.Writer) (written int64, err error) {
	for r.rest > 0 && err == nil {
		var n int64
		n, err = r.WriteSpan(w, r.rest)
		written += n
	}
	return written, err
}

// WriteSpan writes bytes of one file, at most size.
func (r *partsReader) WriteSpan(w io.Writer, size int64) (int64, error) {
	if err := r.next(); err != nil {
		return 0, err
	}
	want := min(size, r.open.rest)
	n, err := r.open.WriteSpan(w, want)
	r.rest -= n
	if err == nil && n < want {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// truncated replaces the end of a file that has fewer bytes than the list of parts states.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *partsReader) Close() error {
	if r.open == nil {
		return nil
	}
	f := r.open
	r.open = nil
	return f.Close()
}

// pageSize bounds the memory of List. Each page reads the names of all objects, because their folders are not in the
// sequence of their ids.
const pageSize = 200_000

// List reads a page of ids, and then their sizes.
func (s *Store) List(ctx context.Context, after uuid.UUID) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for {
			ids, err := s.page(ctx, after, pageSize)
			if err != nil {
				yield(blob.Info{}, err)
				return
			}
			for _, id := range ids {
				info, err := s.Stat(ctx, id)
				if errors.Is(err, blob.ErrNotFound) {
					continue // deleted since the page was read
				}
				if err = errors.Join(err, ctx.Err()); !yield(info, err) || err != nil {
					return
				}
			}
			if len(ids) < pageSize {
				return
			}
			after = ids[len(ids)-1]
		}
	}
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

// page returns the lowest ids above after, sorted, and at most limit of them.
func (s *Store) page(ctx context.Context, after uuid.UUID, limit int) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	lowest := func() {
		slices.SortFunc(ids, compareIDs)
		ids = ids[:min(len(ids), limit)]
	}
	err := s.eachObject(ctx, func(id uuid.UUID) {
		if compareIDs(id, after) > 0 {
			ids = append(ids, id)
		}
		if len(ids) >= 2*limit {
			lowest()
		}
	})
	lowest()
	return ids, err
}

// eachObject calls do for every object, in no sequence.
func (s *Store) eachObject(ctx context.Context, do func(uuid.UUID)) error {
	upper, err := s.names(objectsDir)
	if err != nil {
		return err
	}
	for _, a := range upper {
		lower, err := s.names(path.Join(objectsDir, a))
		if err != nil {
			return err
		}
		for _, b := range lower {
			names, err := s.names(path.Join(objectsDir, a, b))
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			for _, name := range names {
				if id, err := uuid.Parse(name); err == nil && id.String() == name {
					do(id)
				}
			}
		}
	}
	return nil
}
