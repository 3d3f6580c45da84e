package source

import (
	"context"
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

	"github.com/gpuaas/gpuaas/gitops/source/pack"
	"github.com/gpuaas/gpuaas/gitops/source/remote"
	"github.com/gpuaas/gpuaas/gitops/source/text"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// defaultDepth of a new store is enough history to prove that a commit follows the applied one, also after a pause of
// the sync.
const defaultDepth = 50

// longestFetch ends a fetch whose caller has set no deadline. A server that sends one byte a minute would otherwise
// block the source for ever.
const longestFetch = 10 * time.Minute

// fetch fetches the commit that a ref names into the store if it is missing. It reports whether the
// store had any commit before.
func (s *Source) fetch(ctx context.Context, st *store, ref string) (commit plumbing.Hash, err error) {
	ctx, cancel := context.WithTimeout(ctx, longestFetch)
	defer cancel()
	if hash := plumbing.NewHash(ref); plumbing.IsHash(ref) && st.packs.Has(hash) {
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
		if !errors.As(err, &much) || s.rejected[much.commit] != "" || ref != s.Ref {
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

// reject stores a commit that is too large, so that it is not fetched again at every poll. The map is cleared at its
// limit, because anyone who may push could otherwise fill the memory.
func (s *Source) reject(much tooMuchError) {
	if len(s.rejected) >= mostTips {
		clear(s.rejected)
	}
	s.rejected[much.commit] = much.What
}

// depths lists the depths to try: first the objects since the last fetch, then a new store. A pull request gets only
// the first one, so that a foreign commit never deletes the store of the tracked branch.
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
	at, err := s.at()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	l, err := at.Call(ctx)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer l.Close() //nolint:errcheck // everything has been read
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	o, err := remote.Greet(ctx, l)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	name, want := ref, plumbing.NewHash(ref)
	if !plumbing.IsHash(ref) {
		if name, want, err = o.Find(ref); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	if what, ok := s.rejected[want]; ok {
		return plumbing.ZeroHash, tooMuchError{want, pack.ExcessError{What: what}}
	}
	if !st.packs.Has(want) {
		if err := s.bring(ctx, st, l, o, want, depth); err != nil {
			if _, ok := errors.AsType[*errs.Error](err); ok && name == want.String() {
				return plumbing.ZeroHash, errs.New(errs.NotFound, "the repository does not give the commit %s", want).Because(err)
			}
			if much, ok := errors.AsType[pack.ExcessError](err); ok {
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

// at returns the address of the repository. A source without a store reads what an operator named on the
// command line, which may be a folder of this computer.
func (s *Source) at() (remote.Remote, error) {
	u, err := parse(s.remote)
	if err != nil {
		return remote.Remote{}, err
	}
	return remote.Remote{URL: u, Auth: s.spec.Auth, AllowPrivate: s.spec.AllowPrivate, AllowFile: s.spec.AllowFile || s.dir == ""}, nil
}

// tooMuchError rejects a commit because reading it would cost too much.
type tooMuchError struct {
	commit plumbing.Hash
	pack.ExcessError
}

func (e tooMuchError) Unwrap() error { return e.ExcessError }

// bring fetches the missing objects into the store. The packs become part of the store only after
// all of them were checked and renamed. Partial or too expensive packs are deleted.
func (s *Source) bring(ctx context.Context, st *store, l remote.Line, o remote.Advertisement, want plumbing.Hash, depth int) error {
	r := remote.Request{Commit: want, Depth: depth}
	r.Haves, r.Shallow = st.negotiation()
	a, err := r.Send(ctx, l, o)
	if err != nil {
		return err
	}
	if err := st.prepare(); err != nil {
		return err
	}
	b := s.Limits.bounds()
	if err := st.receive(ctx, a.Pack, b); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	for _, h := range slices.Concat(a.Shallow, o.Shallow) {
		st.shallow[h] = true
	}
	for _, h := range a.Unshallow {
		delete(st.shallow, h)
	}
	if !st.packs.Has(want) {
		return fmt.Errorf("the repository sends a pack without %s", want)
	}
	return nil
}

// receive writes a pack to a temporary file, checks it, and only then renames it. go-git's storage
// ignores the temporary name.
func (s *store) receive(ctx context.Context, from io.Reader, b pack.Bounds) error {
	const arriving = pack.Folder + "/arriving"
	f, err := s.root.OpenFile(arriving, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("keeping the pack: %w", err)
	}
	defer s.root.Remove(arriving) //nolint:errcheck // gone where the pack was kept
	defer f.Close()               //nolint:errcheck // its errors were those of its writes
	if _, err := io.Copy(f, &pack.AtMost{R: from, Left: b.Bytes, What: fmt.Sprintf("the repository sends more than %d bytes", b.Bytes)}); err != nil {
		return fmt.Errorf("receiving the pack: %w", err)
	}
	sum, err := pack.Checksum(f)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	index, err := b.Index(ctx, f, sum)
	if err != nil {
		return err
	}
	name := "pack-" + sum.String()
	if err := s.root.Rename(arriving, path.Join(pack.Folder, name+".pack")); err != nil {
		return fmt.Errorf("keeping the pack: %w", err)
	}
	// The index last: without it a pack is not there.
	if err := s.writeIndex(path.Join(pack.Folder, name+".idx"), index); err != nil {
		return err
	}
	one, err := pack.Open(s.root, name, index, s.packs.Cache)
	if err != nil {
		return err
	}
	s.packs.List = append([]*pack.Pack{one}, s.packs.List...)
	return nil
}

// tip records the commit of a name and drops the oldest record above the limit.
func (s *store) tip(name string, commit plumbing.Hash) {
	s.tips[name] = commit
	for other := range s.tips {
		if len(s.tips) > mostTips && other != name {
			delete(s.tips, other)
		}
	}
}

// peel follows annotated tags to their commit. The number of tags is limited, because a hostile repository can contain a
// long chain of them.
func peel(from pack.Objects, hash plumbing.Hash) (plumbing.Hash, error) {
	for range 5 {
		o, err := from.EncodedObject(plumbing.AnyObject, hash)
		if err != nil {
			return hash, corruptError(hash, err)
		}
		switch o.Type() { //nolint:exhaustive // all others are no commits
		case plumbing.CommitObject:
			return hash, nil
		case plumbing.TagObject:
		default:
			return hash, errs.New(errs.NotFound, "%s is a %s and no commit", hash, o.Type())
		}
		raw, err := pack.ReadObject(from, plumbing.TagObject, hash, largestCommit)
		if err != nil {
			return hash, corruptError(hash, err)
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

// unreachable adds a code to an error of the remote repository that has none.
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
		return coded // the wrapping text may contain an address
	case errors.As(err, &disk), errors.As(err, &link):
		return errs.New(errs.Unavailable, "the store of %s cannot be written", redacted(s.remote)).Because(err)
	case errors.As(err, &web):
		// The text of a url.Error contains the address, which may contain a password.
		err = web.Err
	}
	// The server's message may contain control characters for the operator's terminal.
	return errs.New(errs.Unavailable, "the repository %s gives no answer", redacted(s.remote)).Because(errors.New(text.Printable(err.Error())))
}
