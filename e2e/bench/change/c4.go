package change

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// C4 and C5 change this many files. C4 uses a small tree and one of ten times its size, C5 only the
// small one.
const (
	changedFiles = 10
	smallTree    = 10_000
	largeTree    = 100_000
	filesInADir  = 100
)

// IncrementalReads compares the read of ten changed files in a large tree with the same read in a
// small tree, and counts the other files that are read.
func IncrementalReads(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	large, err := newOrigin(ctx, l, "c4-large", l.Scaled(largeTree, 20*filesInADir))
	if err != nil {
		return nil, err
	}
	small, err := newOrigin(ctx, l, "c4-small", l.Scaled(smallTree, 2*filesInADir))
	if err != nil {
		return nil, err
	}
	nothing := func(context.Context) error { return nil }
	p, err := l.Alternate(ctx, lab.SlopePairs, nothing, large.read, small.read)
	if err != nil {
		return nil, err
	}
	r := p.Row("C4", fmt.Sprintf("fetch and read %d changed files of %d", changedFiles, large.n), 1).AtMost(1.2)
	r.CPUOurs, r.CPUPeer = 0, 0 // the commits are made by both sides, too
	r.Note = fmt.Sprintf("peer: the same of %d files, in folders of %d", small.n, filesInADir)
	more := float64(large.more + small.more)
	return []lab.Row{r, {
		ID: "C4-reads", Path: "blobs read that had not changed", Ours: more, Ratio: more, Min: more, Max: more, Goal: "0", Met: new(more == 0),
		Note: fmt.Sprintf("%d syncs, %d blobs read", large.reads+small.reads, large.reads*changedFiles+small.reads*changedFiles),
	}}, nil
}

// origin is a bare repository that changes, with the source that reads it.
type origin struct {
	dir    string
	n      int
	source *source.Source
	commit string
	rounds int
	reads  int
	more   int64 // blobs read beyond what had changed
}

// newOrigin creates a repository of n objects.
func newOrigin(ctx context.Context, l *lab.Lab, name string, n int) (*origin, error) {
	o := &origin{dir: filepath.Join(l.Dir, name+".git"), n: n}
	if err := git1(ctx, "init", "-q", "--bare", "-b", "main", o.dir); err != nil {
		return nil, err
	}
	if err := o.push(ctx, n); err != nil {
		return nil, err
	}
	// The repository is packed as a forge stores it.
	if err := git1(ctx, "-C", o.dir, "repack", "-adq"); err != nil {
		return nil, err
	}
	var err error
	o.source, err = source.OpenStore(filepath.Join(l.Dir, name+"-store"), source.Spec{
		Location: o.dir, Ref: "main", Dirs: []string{"fleet"}, AllowFile: true, Limits: source.Limits{Files: 4 * largeTree, FileBytes: 1 << 20, TreeBytes: 1 << 30},
	})
	if err != nil {
		return nil, err
	}
	tree, err := o.source.Snapshot(ctx, "")
	if err != nil {
		return nil, err
	}
	if len(tree.Findings) > 0 || len(tree.Files) != n {
		return nil, fmt.Errorf("the repository has %d files: %v", len(tree.Files), tree.Findings)
	}
	o.commit = tree.TreeHash
	return o, nil
}

// push commits n files: all of them the first time, then n of them in as many folders.
func (o *origin) push(ctx context.Context, n int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "commit refs/heads/main\ncommitter bench <bench@localhost> %d +0000\ndata 1\nx\n", 1+o.rounds)
	if o.rounds > 0 {
		b.WriteString("from refs/heads/main^0\n")
	}
	step := max(o.n/n, 1)
	for i := range n {
		at := (i*step + o.rounds) % o.n
		text := declaration(at, o.rounds)
		fmt.Fprintf(&b, "M 100644 inline fleet/d%04d/n%06d.yaml\ndata %d\n%s\n", at/filesInADir, at, len(text), text)
	}
	o.rounds++
	cmd := exec.CommandContext(ctx, "git", "-C", o.dir, "fast-import", "--quiet") //nolint:gosec // our own path
	cmd.Stdin = strings.NewReader(b.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("committing: %w: %s", err, out)
	}
	return nil
}

// declaration returns an object with a price that changes.
func declaration(n, round int) string {
	return fmt.Sprintf("apiVersion: gpuaas/v1alpha1\nkind: SKU\nmetadata: {name: sku-%06d}\nspec: {gpuModel: T4, memoryGiB: 16, price: {currency: EUR, amountMinor: %d}}\n", n, 1+round)
}

// read commits a change and measures one poll of the source.
func (o *origin) read(ctx context.Context) (time.Duration, error) {
	if err := o.push(ctx, changedFiles); err != nil {
		return 0, err
	}
	before := o.source.Reads()
	began := clock.Clock{}.Now()
	tree, err := o.source.Snapshot(ctx, o.commit)
	took := clock.Clock{}.Now().Sub(began)
	if err != nil {
		return 0, err
	}
	if tree.Base != o.commit || len(tree.Changed) != changedFiles {
		return 0, fmt.Errorf("the sync found %d changed files and %d findings", len(tree.Changed), len(tree.Findings))
	}
	o.commit = tree.TreeHash
	o.reads++
	o.more += o.source.Reads().Blobs - before.Blobs - changedFiles
	return took, nil
}

// git1 runs a git command without output.
func git1(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput() //nolint:gosec // constants and our own paths
	if err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
