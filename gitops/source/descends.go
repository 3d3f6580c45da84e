package source

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/gpuaas/gpuaas/gitops/source/pack"
)

// mostAncestors limits the number of commits that are followed to the base. A longer history counts
// as diverged.
const mostAncestors = 20_000

// Descends reports whether ancestor is the commit itself or one of its ancestors. Then applying the
// commit loses nothing that was applied. If the local history ends before the ancestor is found,
// the result is false.
func (s *Source) Descends(ctx context.Context, commit, ancestor string) (bool, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.remote == "" {
		repo, err := s.open()
		if err != nil {
			return false, err
		}
		return descends(ctx, repo.Storer, plumbing.NewHash(commit), plumbing.NewHash(ancestor))
	}
	var yes bool
	err := s.inStore(func(st *store) error {
		if _, err := s.fetch(ctx, st, commit); err != nil {
			return err
		}
		var err error
		yes, err = descends(ctx, &st.packs, plumbing.NewHash(commit), plumbing.NewHash(ancestor))
		return err
	})
	return yes, err
}

// descends searches the history breadth first, so that a long side branch does not delay the search for a recent
// ancestor.
func descends(ctx context.Context, from pack.Objects, commit, ancestor plumbing.Hash) (bool, error) {
	seen := map[plumbing.Hash]bool{commit: true}
	for next := []plumbing.Hash{commit}; len(next) > 0 && len(seen) <= mostAncestors; next = next[1:] {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if next[0] == ancestor {
			return true, nil
		}
		c, err := readCommit(from, next[0])
		if err != nil {
			continue // beyond the depth of the store, or torn: no answer from here
		}
		for _, p := range c.parents {
			if !seen[p] {
				seen[p] = true
				next = append(next, p)
			}
		}
	}
	return false, nil
}
