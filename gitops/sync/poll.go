package sync

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/gitops/source"
	sourceremote "github.com/gpuaas/gpuaas/gitops/source/remote"
	"github.com/gpuaas/gpuaas/gitops/source/signature"
	"github.com/gpuaas/gpuaas/internal/failpoint"
)

// validatedTree is a tree that was validated and is not applied.
type validatedTree struct {
	tree source.Tree
	validated
}

// syncOnce reads the source and makes it desired, if it is not so already.
func (w *watcher) syncOnce(ctx context.Context) (seen revision.Fetched, rev revision.Revision, err error) {
	state, err := w.Desired.SourceByName(ctx, w.Desired.DB, w.spec.Name)
	if err != nil {
		return seen, rev, err
	}
	w.answer(state.RequestedAt)
	reader, err := w.open(ctx)
	if err != nil {
		return seen, rev, err
	}
	tree, err := w.read(ctx, reader, state)
	if err != nil {
		return seen, rev, err
	}
	seen = revision.Fetched{Head: tree.Commit, TreeHash: tree.TreeHash, Before: state.TreeHash}
	failpoint.Hit("git.apply.fetched")
	if upToDate(state, tree) {
		w.pending = nil
	} else if rev, err = w.validateAndApply(ctx, reader, state, tree); err != nil {
		return seen, rev, err
	}
	if rev.Status == revision.StatusApplied {
		w.Log.InfoContext(ctx, "revision applied", "component", "git", "source", rev.Source, "commit", rev.Commit, "revision", rev.Revision,
			"created", rev.Created, "changed", rev.Changed, "deleted", rev.Deleted, "adopted", rev.Adopted)
		w.Hints.Send(revision.HintSources) // it may have named other sources
	}
	if rev.Revision > 0 {
		failpoint.Hit("git.apply.reported")
	}
	return seen, rev, nil
}

// reader reads the commits of a source.
type reader interface {
	tree(ctx context.Context, known string) (source.Tree, error)
}

// remote is a repository as the profile declares it.
type remote struct{ *source.Source }

func (r remote) tree(ctx context.Context, known string) (source.Tree, error) {
	return r.Snapshot(ctx, known)
}

// repository returns nil if the reader is not a Git repository.
func repository(r reader) *source.Source {
	switch r := r.(type) {
	case remote:
		return r.Source
	case Root:
		return r.Git
	}
	return nil
}

// open resolves the secrets at each poll, because an operator may have replaced them.
func (w *watcher) open(ctx context.Context) (reader, error) {
	rules := w.Rules()
	if w.root && w.Root.Git == nil {
		return w.Root, nil
	}
	verify := signature.Verify{Required: w.spec.Verify.Required || rules.Signed, SSH: w.spec.Verify.SSH}
	for _, key := range w.spec.Verify.OpenPGP {
		verify.OpenPGP = append(verify.OpenPGP, []byte(key))
	}
	if w.root {
		w.Root.Git.Limits, w.Root.Git.Verify = rules.Limits, verify
		return w.Root, nil
	}
	auth, err := w.auth(ctx)
	if err != nil {
		return nil, err
	}
	spec := source.Spec{
		Name: w.spec.Name, Location: w.spec.Repository, Ref: w.spec.Ref, Dirs: w.spec.Dirs, Limits: rules.Limits, Auth: auth, Verify: verify,
		AllowPrivate: w.Development, AllowFile: w.Development,
	}
	// The opened source and its cache of trees are reused as long as its spec and secrets are
	// unchanged.
	if w.source != nil && reflect.DeepEqual(w.opened, spec) {
		return remote{w.source}, nil
	}
	if err := os.MkdirAll(w.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for Git stores: %w", err)
	}
	if w.source, err = source.OpenStore(filepath.Join(w.Dir, w.spec.Name), spec); err != nil {
		return nil, err
	}
	w.opened = spec
	return remote{w.source}, nil
}

// auth reads the credentials again for each fetch, so that a rotated credential needs no restart.
func (w *watcher) auth(ctx context.Context) (a sourceremote.Auth, err error) {
	if w.spec.Auth == nil {
		return a, nil
	}
	for _, one := range []struct {
		ref string
		to  *[]byte
	}{{w.spec.Auth.TokenRef, &a.Token}, {w.spec.Auth.SSHKeyRef, &a.SSHKey}, {w.spec.Auth.KnownHostsRef, &a.KnownHosts}} {
		if one.ref == "" {
			continue
		}
		if *one.to, err = w.Credentials.Resolve(ctx, one.ref, w.spec.Repository); err != nil {
			return sourceremote.Auth{}, err
		}
	}
	return a, nil
}

// upToDate reports whether the tree is applied and no object of it was adopted by the API since
// then.
func upToDate(state revision.SourceState, tree source.Tree) bool {
	return state.Applied.Revision > 0 && tree.TreeHash == state.Applied.TreeHash && !ownershipChanged(state)
}

// ownershipChanged reports whether an object has changed its owner since the last poll. Then the applied
// objects may differ from the tree.
func ownershipChanged(state revision.SourceState) bool {
	return state.TreeHash == "" && state.CheckedAt != nil
}

// read reads the tree. It reads no file of a tree whose result is stored already.
func (w *watcher) read(ctx context.Context, r reader, state revision.SourceState) (source.Tree, error) {
	if ownershipChanged(state) {
		w.pending = nil
		return r.tree(ctx, "")
	}
	if w.isUpToDate(state) {
		tree, err := r.tree(ctx, state.Latest.TreeHash)
		if err != nil || tree.Unchanged && (state.Latest.Status != revision.StatusRejected || tree.Commit == state.Latest.Commit) {
			return tree, err
		}
	}
	tree, err := r.tree(ctx, state.Applied.TreeHash)
	if err != nil || tree.Base == "" || tree.Base == w.cached {
		return tree, err
	}
	return r.tree(ctx, "")
}

// isUpToDate reports whether the latest tree needs no new validation. The tree is still in memory,
// or it was rejected for its content. A tree that waits for an approval is checked again, because
// it may be approved by now.
func (w *watcher) isUpToDate(state revision.SourceState) bool {
	l := state.Latest
	switch {
	case l.TreeHash == "":
		return false
	case w.pending != nil && w.pending.tree.TreeHash == l.TreeHash:
		return true
	case l.Status == revision.StatusRejected:
		return true
	}
	return faulty(l)
}

// faulty reports whether a revision is invalid because of its files and not because of its effect.
func faulty(r revision.Revision) bool { return r.Status == revision.StatusInvalid && r.Objects == 0 }

// validateAndApply validates a tree that is not applied yet, checks it against the approval rules,
// and applies it.
func (w *watcher) validateAndApply(ctx context.Context, r reader, state revision.SourceState, tree source.Tree) (revision.Revision, error) {
	latest := state.Latest
	snap := w.snapshot(state, tree)
	switch {
	case len(tree.Findings) > 0:
		return w.Desired.Reject(ctx, snap, tree.Findings)
	case tree.TreeHash == latest.TreeHash && faulty(latest):
		return w.Desired.Reject(ctx, snap, latest.Findings)
	case tree.TreeHash == latest.TreeHash && tree.Commit == latest.Commit && latest.Status == revision.StatusRejected:
		return latest, nil
	case !w.ownsSource(state, tree):
		v, findings, err := w.validate(ctx, tree)
		if err != nil {
			return revision.Revision{}, err
		}
		failpoint.Hit("git.apply.validated")
		if len(findings) > 0 {
			w.pending = nil
			return w.Desired.Reject(ctx, snap, findings)
		}
		w.pending = &validatedTree{tree, v}
	}
	return w.apply(ctx, r, state, w.pending.within(snap, state))
}

// ownsSource reports whether the last poll has validated the tree against the revision that is
// still applied.
func (w *watcher) ownsSource(state revision.SourceState, tree source.Tree) bool {
	return w.pending != nil && w.pending.tree.TreeHash == tree.TreeHash && (w.pending.objects != nil || w.pending.delta.Base == state.Applied.TreeHash)
}

func (w *watcher) snapshot(state revision.SourceState, tree source.Tree) revision.Snapshot {
	return revision.Snapshot{
		Source: w.spec.Name, Repository: w.spec.Repository, Commit: tree.Commit, TreeHash: tree.TreeHash, Since: &state.Applied.Revision,
		Meta: revision.Meta{
			Author: tree.Meta.Author, AuthorEmail: tree.Meta.AuthorEmail, Committer: tree.Meta.Committer, Message: tree.Meta.Message, At: tree.Meta.At, Signer: tree.Meta.Signer,
		},
	}
}

// apply applies a validated tree. It checks first whether the branch was rewritten, because a policy may require an
// approval then.
func (w *watcher) apply(ctx context.Context, r reader, state revision.SourceState, snap revision.Snapshot) (revision.Revision, error) {
	diverged, err := w.diverged(ctx, r, state, snap.Commit)
	if err != nil {
		return revision.Revision{}, err
	}
	c := w.change(state, snap)
	c.Diverged = diverged
	rev, err := w.Desired.Apply(ctx, snap, w.gate(c, originOf(snap.Meta)))
	if err == nil && (rev.Status == revision.StatusApplied || rev.Status == revision.StatusRejected) {
		w.pending = nil
	}
	if err == nil && rev.Status == revision.StatusApplied {
		w.storeTree(snap.TreeHash)
	}
	return rev, err
}

func (w *watcher) change(state revision.SourceState, snap revision.Snapshot) preview.Change {
	return preview.Change{
		Source: snap.Source, Repository: snap.Repository, Commit: snap.Commit, Base: state.Applied.Commit, Owner: desired.OwnerGit,
		Signer:  snap.Meta.Signer,
		Trusted: w.root && (state.Applied.Revision == 0 || snap.Commit == Builtin || snap.Commit == source.WorkTreeCommit),
	}
}

// diverged reports whether the branch was rewritten. It is called only where the result matters,
// because it may cost a fetch.
func (w *watcher) diverged(ctx context.Context, r reader, state revision.SourceState, commit string) (bool, error) {
	repo := repository(r)
	before := state.Applied.Commit
	if !w.Rules().Undiverged || repo == nil || before == "" || before == commit || before == source.WorkTreeCommit || commit == source.WorkTreeCommit {
		return false, nil
	}
	descends, err := repo.Descends(ctx, commit, before)
	return !descends, err
}

func originOf(m revision.Meta) change.Origin {
	return change.Origin{Author: authorOf(m), Emails: []string{m.AuthorEmail, m.Committer}, Signer: m.Signer}
}

func authorOf(m revision.Meta) string {
	if m.AuthorEmail != "" {
		return m.AuthorEmail
	}
	return m.Author
}

// gate returns the approval gate of a change. While the source is suspended, every change waits.
func (w *watcher) gate(c preview.Change, from change.Origin) revision.Gate {
	return func(ctx context.Context, tx pgx.Tx, d revision.Difference) (revision.Verdict, error) {
		c.Diff = d
		v, err := w.Change.Gate(ctx, tx, c, from)
		if err != nil {
			return v, err
		}
		failpoint.Hit("git.apply.planned")
		state, err := w.Desired.SourceByName(ctx, tx, w.spec.Name)
		if err == nil && state.Suspended != nil {
			v.Waits = append(v.Waits, revision.Wait{
				Reason: revision.WaitSuspended, Message: "the source is suspended by " + state.Suspended.By + ": " + state.Suspended.Reason,
			})
		}
		return v, err
	}
}
