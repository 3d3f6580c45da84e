// Package sync fetches each Git source, validates its commits and applies them through gitops/change.
// It also previews open pull requests and reports the results to the forge.
package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/secretref"
)

// Syncer syncs the root source, with which the server was started, and the sources that the profile of the root declares.
type Syncer struct {
	Desired *revision.Store
	Change  *change.Service
	Reports *forge.Reports // nil: no forge receives reports
	Root    Root
	// Environment is the name of the profile; sources of another are left alone.
	Environment string
	// Development permits repositories on the local machine and on its network.
	Development bool
	Dir         string // of the bare stores, one folder for each source
	Rules       func() Rules
	// Credentials contains the secrets that sources refer to.
	Credentials *secretref.Credentials
	Naming      ids.Naming
	Metrics     *Metrics
	Hints       *hint.Bus
	Log         *slog.Logger
	Clock       clock.Clock

	mu       sync.Mutex
	watchers map[string]*watcher

	// declaring is a mutex of its own. A caller that stores sources may wait for rows that a
	// revision has locked, and the watcher of that revision locks the other mutex.
	declaring sync.Mutex
	rows      string // what was declared last
}

// Rules are the policies of the sync.
type Rules struct {
	Poll   time.Duration
	Limits source.Limits
	// Signed demands a signature of every commit of every source.
	Signed bool
	// Undiverged demands that a commit descends from the applied one.
	Undiverged bool
	// Forks also previews pull requests from forks.
	Forks bool
}

// Run follows the sources until ctx ends.
func (f *Syncer) Run(ctx context.Context) error {
	hints, stop := f.Hints.Listen(revision.HintSources)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		// Before the first poll only the root is known. Each of its revisions may name others.
		if err := f.arrange(ctx, &all); err != nil && ctx.Err() == nil {
			f.Log.WarnContext(ctx, "sources cannot be arranged", "component", "git", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-hints:
		case <-time.After(arrangeEvery):
		}
	}
}

// arrangeEvery is the time in which the sync of a new source begins. Each round costs the read of
// one row and no write.
const arrangeEvery = 2 * time.Second

// arrange starts and stops watchers according to the declared sources.
func (f *Syncer) arrange(ctx context.Context, all *sync.WaitGroup) error {
	specs, err := f.declared(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, w := range f.watchers {
		if spec, stays := find(specs, name); !stays || !w.follows(spec) {
			w.stop()
			delete(f.watchers, name)
		}
	}
	for _, spec := range specs {
		w := f.watcher(spec)
		if w.stop == nil {
			w.start(ctx, all)
		}
	}
	return nil
}

// watcher returns the watcher of a source and creates it at the first call.
func (f *Syncer) watcher(spec desired.GitSource) *watcher {
	if f.watchers == nil {
		f.watchers = map[string]*watcher{}
	}
	w := f.watchers[spec.Name]
	if w == nil {
		w = &watcher{Syncer: f, spec: spec, root: spec.Name == f.Root.Name}
		f.watchers[spec.Name] = w
	}
	return w
}

// declared returns the root and the sources of the applied profile. It also stores them as rows for the roles that only
// read them.
func (f *Syncer) declared(ctx context.Context) ([]desired.GitSource, error) {
	root := f.Root.spec()
	_, profile, err := f.Desired.Profile(ctx, f.Desired.DB)
	if err != nil && errs.CodeOf(err) != errs.NotFound {
		return nil, err
	}
	others := []desired.GitSource{}
	for _, s := range profile.Sources {
		switch {
		case s.Environment != "" && s.Environment != f.Environment:
		case s.Name == root.Name: // the spec configures reading and verifying; the flags name the repository
			root.Forge, root.Auth, root.Verify = s.Forge, s.Auth, s.Verify
		default:
			others = append(others, s)
		}
	}
	return append(others, root), f.declare(ctx, root, others)
}

// declare writes the rows unless this process has written the same ones last.
func (f *Syncer) declare(ctx context.Context, root desired.GitSource, others []desired.GitSource) error {
	f.declaring.Lock()
	defer f.declaring.Unlock()
	rows := fmt.Sprint(text(root), text(others))
	if rows == f.rows {
		return nil
	}
	// The root first: what was known by its repository is its own.
	for _, one := range []struct {
		by      string
		sources []desired.GitSource
	}{{revision.DeclaredByServer, []desired.GitSource{root}}, {revision.DeclaredByEnvironment, others}} {
		specs := make([]revision.SourceSpec, len(one.sources))
		for i, s := range one.sources {
			var err error
			if specs[i], err = revision.SpecOf(s); err != nil {
				return err
			}
		}
		if err := f.Desired.DeclareSources(ctx, one.by, specs); err != nil {
			return err
		}
	}
	f.rows = rows
	return nil
}

func find(specs []desired.GitSource, name string) (desired.GitSource, bool) {
	i := slices.IndexFunc(specs, func(s desired.GitSource) bool { return s.Name == name })
	if i < 0 {
		return desired.GitSource{}, false
	}
	return specs[i], true
}

// Sync polls the root source now and returns the result.
func (f *Syncer) Sync(ctx context.Context) (revision.Revision, error) {
	specs, err := f.declared(ctx)
	if err != nil {
		return revision.Revision{}, err
	}
	spec, _ := find(specs, f.Root.Name)
	f.mu.Lock()
	w := f.watcher(spec)
	f.mu.Unlock()
	return w.pollSource(ctx)
}

// Fault returns the reason why a source is not synced, or an empty string.
func (f *Syncer) Fault() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, len(f.watchers))
	for name, w := range f.watchers {
		if fault := w.fault(); fault != "" {
			names = append(names, name+": "+fault)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	if len(names) > 1 {
		names[0] += fmt.Sprintf(" (and %d more)", len(names)-1)
	}
	return names[0]
}

func same(a, b desired.GitSource) bool { return text(a) == text(b) }

// text compares specs by their JSON.
func text(v any) string {
	encoded, err := json.Marshal(v)
	if err != nil {
		return err.Error() // strings and lists of them
	}
	return string(encoded)
}
