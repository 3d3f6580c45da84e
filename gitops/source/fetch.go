package source

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the checksum that packs end with; names are collision-proof sums
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// defaultDepth of a new store: enough to see that a commit follows the one that is
// applied, after any ordinary pause.
const defaultDepth = 50

// longestFetch is the end of a fetch whose caller sets none.
const longestFetch = 10 * time.Minute

// fetch brings the commit that a ref names into the store, if it is not there. It
// says whether anything was there before.
func (s *Source) fetch(ctx context.Context, st *store, ref string) (commit plumbing.Hash, err error) {
	ctx, cancel := context.WithTimeout(ctx, longestFetch)
	defer cancel()
	if hash := plumbing.NewHash(ref); plumbing.IsHash(ref) && st.packs.has(hash) {
		return peel(&st.packs, hash)
	}
	if st.outgrown(s.Limits) {
		if err := st.clear(); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	var much tooMuchError
	for _, depth := range s.depths(st, ref) {
		commit, err = s.fetchOnce(ctx, st, ref, depth)
		if !errors.As(err, &much) || s.refused[much.commit] != "" || ref != s.Ref {
			break
		}
		// Less of the history may fit where all of it does not.
		if cleared := st.clear(); cleared != nil {
			return plumbing.ZeroHash, cleared
		}
	}
	if errors.As(err, &much) {
		s.reject(much)
	}
	return commit, s.unreachable(err)
}

// reject remembers what is not to be fetched again at each look.
func (s *Source) reject(much tooMuchError) {
	if len(s.refused) >= mostTips {
		clear(s.refused)
	}
	s.refused[much.commit] = much.what
}

// depths to try: what is new since the last time, then a new store. What strangers
// offer in a pull request never costs the tracked branch its store.
func (s *Source) depths(st *store, ref string) []int {
	depth := s.spec.CloneDepth
	if depth <= 0 {
		depth = defaultDepth
	}
	switch {
	case len(st.tips) == 0:
		return slices.Compact([]int{depth, 1})
	case ref != s.Ref:
		return []int{0}
	}
	return slices.Compact([]int{0, depth, 1})
}

func (s *Source) fetchOnce(ctx context.Context, st *store, ref string, depth int) (plumbing.Hash, error) {
	l, err := s.call(ctx)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer l.Close() //nolint:errcheck // everything has been read
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	o, err := greet(ctx, l)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	name, want := ref, plumbing.NewHash(ref)
	if !plumbing.IsHash(ref) {
		if name, want, err = o.find(ref); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	if what, ok := s.refused[want]; ok {
		return plumbing.ZeroHash, tooMuchError{want, excessError{what}}
	}
	if !st.packs.has(want) {
		if err := s.bring(ctx, st, l, o, want, depth); err != nil {
			if _, ok := errors.AsType[*errs.Error](err); ok && name == want.String() {
				return plumbing.ZeroHash, errs.New(errs.NotFound, "the repository does not give the commit %s", want).Because(err)
			}
			if much, ok := errors.AsType[excessError](err); ok {
				return plumbing.ZeroHash, tooMuchError{want, much}
			}
			return plumbing.ZeroHash, err
		}
	}
	if st.tips[name] != want {
		st.tip(name, want)
		if err := st.save(); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	return peel(&st.packs, want)
}

// tooMuchError is a commit that is refused for what it would cost to read it.
type tooMuchError struct {
	commit plumbing.Hash
	excessError
}

func (e tooMuchError) Unwrap() error { return e.excessError }

// bring asks for what the store lacks, and keeps it once all of it is judged and
// named: packs that are half there, or cost too much, never become part of it.
func (s *Source) bring(ctx context.Context, st *store, l line, o offer, want plumbing.Hash, depth int) error {
	r := request{want: want, depth: depth}
	r.haves, r.shallow = st.known()
	a, err := r.send(ctx, l, o)
	if err != nil {
		return err
	}
	if err := st.prepare(); err != nil {
		return err
	}
	b := s.Limits.bounds()
	if err := st.receive(ctx, a.pack, b); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	for _, h := range slices.Concat(a.shallow, o.shallow) {
		st.shallow[h] = true
	}
	for _, h := range a.unshallow {
		delete(st.shallow, h)
	}
	if !st.packs.has(want) {
		return fmt.Errorf("the repository sends a pack without %s", want)
	}
	return nil
}

// receive writes a pack beside the others, judges it, and only then gives it a
// name that counts.
func (s *store) receive(ctx context.Context, from io.Reader, b bounds) error {
	const arriving = packFolder + "/arriving"
	f, err := s.root.OpenFile(arriving, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("keeping the pack: %w", err)
	}
	defer s.root.Remove(arriving) //nolint:errcheck // gone where the pack was kept
	defer f.Close()               //nolint:errcheck // its errors were those of its writes
	if _, err := io.Copy(f, &atMost{r: from, left: b.bytes, what: fmt.Sprintf("the repository sends more than %d bytes", b.bytes)}); err != nil {
		return fmt.Errorf("receiving the pack: %w", err)
	}
	sum, err := checksum(f)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	index, err := b.index(ctx, f, sum)
	if err != nil {
		return err
	}
	name := "pack-" + sum.String()
	if err := s.root.Rename(arriving, path.Join(packFolder, name+".pack")); err != nil {
		return fmt.Errorf("keeping the pack: %w", err)
	}
	// The index last: without it a pack is not there.
	if err := s.writeIndex(path.Join(packFolder, name+".idx"), index); err != nil {
		return err
	}
	one, err := openPack(s.root, name, index, s.packs.cache)
	if err != nil {
		return err
	}
	s.packs.list = append([]*pack{one}, s.packs.list...)
	return nil
}

// checksum holds the last twenty bytes of a pack against all that is before them.
func checksum(f *os.File) (sum plumbing.Hash, err error) {
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

// tip notes what a name stands for, and forgets another one where there are many.
func (s *store) tip(name string, commit plumbing.Hash) {
	s.tips[name] = commit
	for other := range s.tips {
		if len(s.tips) > mostTips && other != name {
			delete(s.tips, other)
		}
	}
}

// peel follows tags to the commit that they are on.
func peel(from objects, hash plumbing.Hash) (plumbing.Hash, error) {
	for range 5 {
		o, err := from.EncodedObject(plumbing.AnyObject, hash)
		if err != nil {
			return hash, torn(hash, err)
		}
		switch o.Type() { //nolint:exhaustive // all others are no commits
		case plumbing.CommitObject:
			return hash, nil
		case plumbing.TagObject:
		default:
			return hash, errs.New(errs.NotFound, "%s is a %s and no commit", hash, o.Type())
		}
		raw, err := readObject(from, plumbing.TagObject, hash, largestCommit)
		if err != nil {
			return hash, torn(hash, err)
		}
		first, _, _ := strings.Cut(string(raw), "\n")
		target, ok := strings.CutPrefix(first, "object ")
		if !ok || !plumbing.IsHash(target) {
			return hash, errs.New(errs.NotFound, "the tag %s is on nothing", hash)
		}
		hash = plumbing.NewHash(target)
	}
	return hash, errs.New(errs.NotFound, "%s is a tag of tags, without end", hash)
}

// unreachable gives what went wrong over there a code, if it has none.
func (s *Source) unreachable(err error) error {
	var coded *errs.Error
	var much tooMuchError
	var web *url.Error
	var disk *fs.PathError
	var link *os.LinkError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.As(err, &much):
		return err
	case errors.As(err, &coded):
		return coded // what stands around it may hold an address
	case errors.As(err, &disk), errors.As(err, &link):
		return errs.New(errs.Unavailable, "the store of %s cannot be kept", redacted(s.remote)).Because(err)
	case errors.As(err, &web):
		err = web.Err
	}
	// What the other side says may repaint the terminal that it is shown on.
	return errs.New(errs.Unavailable, "the repository %s gives no answer", redacted(s.remote)).Because(errors.New(printable(err.Error())))
}
