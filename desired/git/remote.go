package git

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// isURL tells an address from a path: it has a scheme, or a host before a colon.
func isURL(location string) bool {
	if strings.Contains(location, "://") || strings.Contains(location, "::") {
		return true
	}
	host, _, ok := strings.Cut(location, ":")
	return ok && len(host) > 1 && !strings.ContainsAny(host, `/\.`) || ok && strings.Contains(host, "@")
}

// allowed refuses transports that run programs or trust the wire. file is for
// repositories on the same machine; Git's own program serves them.
func allowed(location string) error {
	if strings.Contains(location, "::") || strings.HasPrefix(location, "-") {
		return errs.Invalid("repository", "%q names a program, not a repository", location)
	}
	if !strings.Contains(location, "://") {
		if strings.Contains(location, ":-") || strings.HasPrefix(location, "-") {
			return errs.Invalid("repository", "%q looks like an option", location)
		}
		return nil // user@host:path, over ssh
	}
	u, err := url.Parse(location)
	if err != nil {
		return errs.Invalid("repository", "the address cannot be read").Because(err)
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "ssh" && u.Scheme != "file":
		return errs.Invalid("repository", "the transport %q is not allowed", u.Scheme).Try("use https or ssh")
	case strings.HasPrefix(u.Hostname(), "-"):
		return errs.Invalid("repository", "%q looks like an option", u.Hostname())
	}
	return nil
}

// streamAbove keeps larger objects on disk: a pack of a megabyte can hold one of
// a gigabyte, and it is refused by its size before anything asks for it.
const streamAbove = 1 << 20

// fetch brings one commit into a bare repository of its own, which done removes.
// A fresh one each time: there is no garbage collection, and a shallow fetch of
// one commit costs little more than asking what is new.
func (s *Source) fetch(ctx context.Context) (*gogit.Repository, func(), error) {
	folder, err := os.MkdirTemp("", "gpuaas-git-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a folder for the fetch: %w", err)
	}
	done := func() { _ = os.RemoveAll(folder) }
	repo, err := s.fetchInto(ctx, folder)
	if err != nil {
		done()
		return nil, nil, err
	}
	return repo, done, nil
}

func (s *Source) fetchInto(ctx context.Context, folder string) (*gogit.Repository, error) {
	store := filesystem.NewStorageWithOptions(osfs.New(folder), cache.NewObjectLRU(cache.MiByte), filesystem.Options{LargeObjectThreshold: streamAbove})
	repo, err := gogit.Init(store, nil)
	if err != nil {
		return nil, fmt.Errorf("preparing the fetch: %w", err)
	}
	remote, err := repo.CreateRemote(&config.RemoteConfig{Name: "origin", URLs: []string{s.remote}})
	if err != nil {
		return nil, errs.Invalid("repository", "the address cannot be used").Because(err)
	}
	from, err := s.remoteRef(ctx, remote)
	if err != nil {
		return nil, err
	}
	local := plumbing.ReferenceName("refs/heads/fetched")
	err = remote.FetchContext(ctx, &gogit.FetchOptions{
		RefSpecs: []config.RefSpec{config.RefSpec(from + ":" + local.String())}, Depth: 1, Tags: gogit.NoTags,
	})
	if err != nil {
		return nil, unreachable(s.remote, err)
	}
	ref, err := repo.Reference(local, true)
	if err != nil {
		return nil, fmt.Errorf("reading fetched ref: %w", err)
	}
	// Ref may be a name that only the remote has.
	name := plumbing.ReferenceName("refs/heads/" + s.Ref)
	if s.Ref == "HEAD" {
		name = plumbing.HEAD
	}
	return repo, store.SetReference(plumbing.NewHashReference(name, ref.Hash()))
}

// remoteRef finds the full name of Ref over there.
func (s *Source) remoteRef(ctx context.Context, remote *gogit.Remote) (string, error) {
	refs, err := remote.ListContext(ctx, &gogit.ListOptions{})
	if err != nil {
		return "", unreachable(s.remote, err)
	}
	byName := map[plumbing.ReferenceName]*plumbing.Reference{}
	for _, r := range refs {
		byName[r.Name()] = r
	}
	for _, name := range []plumbing.ReferenceName{plumbing.ReferenceName(s.Ref), plumbing.NewBranchReferenceName(s.Ref), plumbing.NewTagReferenceName(s.Ref)} {
		r := byName[name]
		if r != nil && r.Type() == plumbing.SymbolicReference {
			r = byName[r.Target()]
		}
		if r != nil {
			return r.Name().String(), nil
		}
	}
	return "", errs.New(errs.NotFound, "the repository has no ref %q", s.Ref)
}

func unreachable(remote string, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, transport.ErrRepositoryNotFound), errors.Is(err, transport.ErrEmptyRemoteRepository):
		return errs.New(errs.NotFound, "no repository at %s", redacted(remote)).Because(err)
	}
	return errs.New(errs.Unavailable, "the repository %s gives no answer", redacted(remote)).Because(err)
}

// redacted leaves out what may be a password.
func redacted(remote string) string {
	u, err := url.Parse(remote)
	if err != nil {
		return "given"
	}
	return u.Redacted()
}
