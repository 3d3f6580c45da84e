package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/git"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Source is where the fleet is declared: a repository, or files that came with
// the binary where there is no checkout.
type Source struct {
	Git *git.Source
	// WorkTree also takes uncommitted files, for development.
	WorkTree bool
	Builtin  map[string][]byte
}

// builtin names the files inside the binary as a source.
const builtin = "builtin"

// Name is how the source is called in revisions.
func (s *Source) Name() string {
	if s.Git == nil {
		return builtin
	}
	return s.Git.Repository
}

// tree reads what the source declares now; Unchanged against a known hash.
func (s *Source) tree(ctx context.Context, known string) (git.Tree, error) {
	if s.Git == nil {
		return builtinTree(s.Builtin, known), nil
	}
	if s.WorkTree {
		dirty, err := s.Git.Dirty(ctx)
		if err != nil {
			return git.Tree{}, err
		}
		if dirty {
			t, err := s.Git.WorkTree(ctx)
			t.Unchanged = err == nil && t.TreeHash == known
			return t, err
		}
	}
	return s.Git.Snapshot(ctx, known)
}

func builtinTree(files map[string][]byte, known string) git.Tree {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		fmt.Fprintf(sum, "%s %d\n", name, len(files[name]))
		sum.Write(files[name])
	}
	hash := hex.EncodeToString(sum.Sum(nil))
	return git.Tree{Commit: builtin, TreeHash: hash, Files: files, Unchanged: hash == known}
}

// Read validates what the source declares, whether or not it is applied.
func (s *Source) Read(ctx context.Context, known string) (git.Tree, []desired.Object, []desired.Finding, error) {
	t, err := s.tree(ctx, known)
	if err != nil || t.Unchanged || len(t.Findings) > 0 {
		return t, nil, t.Findings, err
	}
	result, err := validate.Run(ctx, t.Files)
	if err != nil {
		return t, nil, nil, fmt.Errorf("validating %s: %w", s.Name(), err)
	}
	for i := range result.Objects {
		o := &result.Objects[i].Source
		o.Owner, o.Name, o.Repository, o.Commit = desired.OwnerGit, s.Name(), s.Name(), t.Commit
	}
	return t, result.Objects, result.Findings, nil
}

// syncer follows the source: what is valid becomes desired, what is not changes
// nothing and is said.
type syncer struct {
	source *Source
	policy policy
	*set
	log *slog.Logger

	turn sync.Mutex // one look at a time: the start asks for one beside the clock's

	mu      sync.Mutex
	refused string // hash of the tree that was last refused
	fault   string // why, for healthz; empty when the source is followed
}

// run looks at the source again and again. Losing it costs nothing but news.
func (s *syncer) run(ctx context.Context) error {
	for {
		if _, err := s.once(ctx); err != nil && ctx.Err() == nil {
			s.say(ctx, err.Error())
		}
		// In slices: the first revision may have just set the period, and a new one
		// would otherwise count only after the old one has passed.
		for waited := time.Duration(0); waited < s.policy.pollEvery(); waited += pollSlice {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(pollSlice):
			}
		}
	}
}

const pollSlice = time.Second

// once applies the source's present tree if it is not the one applied.
func (s *syncer) once(ctx context.Context) (desired.Revision, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	known := ""
	p, err := s.desired.Pointer(ctx, s.source.Name())
	switch {
	case err == nil:
		known = p.TreeHash
	case errs.CodeOf(err) != errs.NotFound:
		return desired.Revision{}, err
	}
	tree, objects, findings, err := s.source.Read(ctx, known)
	switch {
	case err != nil:
		return desired.Revision{}, err
	case tree.Unchanged:
		s.say(ctx, "")
		return desired.Revision{}, nil
	case len(findings) > 0:
		return s.refuse(ctx, tree, findings)
	}
	snap := desired.Snapshot{Source: s.source.Name(), Repository: s.source.Name(), Commit: tree.Commit, TreeHash: tree.TreeHash, Objects: objects}
	rev, err := s.desired.Apply(ctx, snap, s.gate)
	switch {
	case err != nil:
		return desired.Revision{}, err
	case rev.Status != desired.StatusApplied:
		s.remember(tree.TreeHash)
		s.say(ctx, reasonOf(rev))
		return rev, nil
	}
	s.log.InfoContext(ctx, "revision applied", "component", "git", "commit", tree.Commit, "created", rev.Created, "changed", rev.Changed, "deleted", rev.Deleted)
	s.say(ctx, "")
	return rev, nil
}

// refuse records a faulty tree once, not at each look.
func (s *syncer) refuse(ctx context.Context, tree git.Tree, findings []desired.Finding) (desired.Revision, error) {
	rev := desired.Revision{Source: s.source.Name(), Commit: tree.Commit, Status: "invalid", Findings: findings}
	if s.remember(tree.TreeHash) {
		var err error
		snap := desired.Snapshot{Source: rev.Source, Repository: rev.Source, Commit: rev.Commit, TreeHash: tree.TreeHash}
		if rev, err = s.desired.Refuse(ctx, snap, findings); err != nil {
			return rev, err
		}
	}
	s.say(ctx, findings[0].String())
	return rev, nil
}

func (s *syncer) remember(hash string) (isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isNew = s.refused != hash || hash == ""
	s.refused = hash
	return isNew
}

// say logs a change of the source's condition, once.
func (s *syncer) say(ctx context.Context, fault string) {
	s.mu.Lock()
	changed := s.fault != fault
	s.fault = fault
	s.mu.Unlock()
	if changed && fault != "" {
		s.log.WarnContext(ctx, "source refused, the last good revision stays", "component", "git", "reason", fault)
	}
}

func (s *syncer) status() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

func reasonOf(rev desired.Revision) string {
	for _, f := range rev.Findings {
		return f.String()
	}
	for _, w := range rev.Waits {
		return w.Message
	}
	return rev.Status
}

// gate holds back what takes too much away at once, or what live allocations stand
// on.
func (s *syncer) gate(ctx context.Context, tx pgx.Tx, d desired.Difference) (v desired.Verdict, err error) {
	objects, percent := s.policy.caps()
	if allowed := max(objects, d.Had()*percent/100); len(d.Deleted) > allowed {
		v.Waits = append(v.Waits, desired.Wait{Reason: "prune_cap", Message: fmt.Sprintf("removes %d of %d objects (prune_limit)", len(d.Deleted), d.Had())})
	}
	used, err := s.inUse(ctx, tx, d)
	v.Waits = append(v.Waits, used.Waits...)
	return v, err
}

// inUse holds back the removal of nodes that live allocations stand on.
func (s *set) inUse(ctx context.Context, tx pgx.Tx, d desired.Difference) (v desired.Verdict, err error) {
	byNode := map[ids.Node]desired.Object{}
	var nodes []ids.Node
	for _, o := range d.Deleted {
		if o.Kind == desired.KindNode {
			n := ids.Node{UUID: o.UID.UUID}
			byNode[n], nodes = o, append(nodes, n)
		}
	}
	used, err := s.inventory.InUse(ctx, tx, nodes)
	if err != nil {
		return v, err
	}
	for _, n := range nodes {
		if slots := used[n]; slots > 0 {
			name := byNode[n].Key().String()
			v.Waits = append(v.Waits, desired.Wait{
				Reason: "under_allocations", Message: fmt.Sprintf("%s is removed, but %d of its slots are in use (node_in_use)", name, slots), Objects: []string{name},
			})
		}
	}
	return v, nil
}
