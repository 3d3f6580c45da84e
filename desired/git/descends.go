package git

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
)

// mostAncestors is how far back a line of descent is followed.
const mostAncestors = 20_000

// Descends says whether ancestor is commit itself or one of its ancestors, so that
// nothing that was applied is lost by going on to commit. Where the history that
// is at hand ends before the answer, the answer is no.
func (s *Source) Descends(ctx context.Context, commit, ancestor string) (bool, error) {
	repo, done, err := s.repository(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	return descends(ctx, repo.Storer, plumbing.NewHash(commit), plumbing.NewHash(ancestor))
}

func descends(ctx context.Context, from objects, commit, ancestor plumbing.Hash) (bool, error) {
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
