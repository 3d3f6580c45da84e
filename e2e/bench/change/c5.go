package change

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
)

// IncrementalSync compares a sync of ten changed objects, from the push to the database, with git
// fetch and git diff-tree, which only transfer and list them.
func IncrementalSync(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	o, err := newOrigin(ctx, l, "c5", l.Scaled(smallTree, 2*filesInADir))
	if err != nil {
		return nil, err
	}
	s, err := newSynced(ctx, l, o)
	if err != nil {
		return nil, err
	}
	defer s.pool.Close()
	clone := filepath.Join(l.Dir, "c5-clone.git")
	if err := git1(ctx, "clone", "-q", "--bare", "file://"+o.dir, clone); err != nil {
		return nil, err
	}
	old := ""
	fetch := func(ctx context.Context) (time.Duration, error) {
		began := clock.Clock{}.Now()
		err := git1(ctx, "-C", clone, "fetch", "-q", "--no-auto-maintenance", "origin", "main:main")
		if err != nil {
			return 0, err
		}
		from := old
		if from == "" {
			from = "main~1"
		}
		out, err := exec.CommandContext(ctx, "git", "-C", clone, "diff-tree", "-r", "--name-only", from, "main").Output() //nolint:gosec // our own path
		took := clock.Clock{}.Now().Sub(began)
		if err != nil || strings.Count(string(out), "\n") != changedFiles {
			return 0, fmt.Errorf("the peer found %d changed files: %w", strings.Count(string(out), "\n"), err)
		}
		head, err := exec.CommandContext(ctx, "git", "-C", clone, "rev-parse", "main").Output() //nolint:gosec // our own path
		old = strings.TrimSpace(string(head))
		return took, err
	}
	nothing := func(context.Context) error { return nil }
	p, err := l.Alternate(ctx, lab.SlopePairs, nothing, s.sync, fetch)
	if err != nil {
		return nil, err
	}
	r := p.Row("C5", fmt.Sprintf("fetch, diff, validate, apply %d of %d objects / git fetch && git diff-tree", changedFiles, o.n), 1).AtMost(2)
	r.CPUOurs, r.CPUPeer = 0, 0 // the commit that both fetch is made by our side
	parts := s.spent
	r.Note = fmt.Sprintf("medians: fetch, diff and read %s, validate %s, apply %s", lab.Short(lab.Median(parts[0])), lab.Short(lab.Median(parts[1])), lab.Short(lab.Median(parts[2])))
	return []lab.Row{r}, nil
}

// synced is a source whose objects are in a database.
type synced struct {
	*origin
	pool  *pgxpool.Pool
	store *revision.Store
	cache *validate.Cache
	spent [3][]float64 // seconds of fetching, validating and applying
}

const syncedSource = "bench"

// newSynced applies the whole tree once.
func newSynced(ctx context.Context, l *lab.Lab, o *origin) (*synced, error) {
	url, err := l.Database(ctx, "c5")
	if err != nil {
		return nil, err
	}
	pool, err := lab.OpenAs(ctx, url, "reconcile", lab.LoopConns)
	if err != nil {
		return nil, err
	}
	s := &synced{origin: o, pool: pool, store: &revision.Store{Store: &desired.Store{DB: pool, Hints: &hint.Bus{}}}, cache: &validate.Cache{}}
	if err := s.store.DeclareSources(ctx, "server", []revision.SourceSpec{{Name: syncedSource, Repository: o.dir, Ref: "main", Dirs: []string{"fleet"}, Settings: []byte("{}")}}); err != nil {
		return nil, err
	}
	tree, err := o.source.Snapshot(ctx, "")
	if err != nil {
		return nil, err
	}
	_, err = s.apply(ctx, tree)
	return s, err
}

// sync commits a change and measures the sync of it.
func (s *synced) sync(ctx context.Context) (time.Duration, error) {
	if err := s.push(ctx, changedFiles); err != nil {
		return 0, err
	}
	began := clock.Clock{}.Now()
	tree, err := s.source.Snapshot(ctx, s.commit)
	if err != nil {
		return 0, err
	}
	read := clock.Clock{}.Now()
	checked, err := s.apply(ctx, tree)
	if err != nil {
		return 0, err
	}
	done := clock.Clock{}.Now()
	for i, took := range []time.Duration{read.Sub(began), checked.Sub(read), done.Sub(checked)} {
		s.spent[i] = append(s.spent[i], took.Seconds())
	}
	return done.Sub(began), nil
}

// apply validates and applies a tree and returns the time at which the validation ended.
func (s *synced) apply(ctx context.Context, tree source.Tree) (time.Time, error) {
	result, err := s.cache.Validate(ctx, validate.Input{Tree: tree.TreeHash, Files: tree.Files, Base: tree.Base, Changed: tree.Changed, Removed: tree.Removed})
	if err != nil {
		return time.Time{}, err
	}
	if len(result.Findings) > 0 {
		return time.Time{}, fmt.Errorf("the tree has findings: %s", result.Findings[0])
	}
	checked := clock.Clock{}.Now()
	snap := revision.Snapshot{Source: syncedSource, Repository: s.dir, Commit: tree.Commit, TreeHash: tree.TreeHash, Objects: result.Objects, Total: len(result.Objects)}
	if tree.Base != "" {
		snap.Base, snap.Objects, snap.Removed, snap.Total = tree.Base, result.Delta.Objects, result.Delta.Removed, result.Delta.Total
	}
	for i := range snap.Objects {
		at := &snap.Objects[i].Source
		at.Owner, at.Name, at.Repository, at.Commit = desired.OwnerGit, syncedSource, s.dir, tree.Commit
	}
	rev, err := s.store.Apply(ctx, snap, nil)
	if err != nil {
		return time.Time{}, err
	}
	if rev.Status != revision.StatusApplied {
		return time.Time{}, fmt.Errorf("the revision is %s", rev.Status)
	}
	s.cache.Commit(tree.TreeHash)
	s.commit = tree.TreeHash
	return checked, nil
}
