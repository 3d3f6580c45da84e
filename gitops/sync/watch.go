package sync

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// watcher follows one source.
type watcher struct {
	*Syncer

	spec desired.GitSource
	root bool
	stop context.CancelFunc // nil before it is started

	source *source.Source // of a source that is not the root
	opened source.Spec    // how
	cache  validate.Cache
	cached string // the tree that the cache contains

	turn    sync.Mutex     // one poll at a time: a caller may request one between the periodic ones
	pending *validatedTree // validated and not applied: the next poll need not read it again
	pulls   map[int]string // the key of the last report of each pull request

	mu     sync.Mutex
	reason string // why the source is not synced, for healthz; empty if it is
	// answered is the time of the request that the last poll has served. It is the database's time,
	// because the request and the poll may belong to two servers.
	answered *time.Time
}

const (
	// pollTimeout is more than twice the limits of a fetch and a validation.
	pollTimeout = 2 * time.Minute
	// longestWait limits the growing interval between polls of an unavailable repository.
	longestWait = 10 * time.Minute
	// In slices: a revision may have just set the period, and a new one would
	// otherwise count only after the old one has passed.
	slice = time.Second
)

func (w *watcher) follows(spec desired.GitSource) bool { return same(w.spec, spec) }

func (w *watcher) start(ctx context.Context, all *sync.WaitGroup) {
	ctx, w.stop = context.WithCancel(ctx)
	all.Go(func() { w.run(ctx) })
}

// run polls the source until ctx ends. Without it the applied objects stay unchanged.
func (w *watcher) run(ctx context.Context) {
	hints, stop := w.Hints.Listen(revision.HintSources)
	defer stop()
	for failures := 0; ctx.Err() == nil; {
		if _, err := w.pollSource(ctx); err != nil {
			failures++
		} else {
			failures = 0
		}
		w.rest(ctx, hints, failures)
	}
}

// rest waits for the period, longer after failures, or until a poll is requested.
func (w *watcher) rest(ctx context.Context, hints <-chan struct{}, failures int) {
	for waited := time.Duration(0); waited < pause(w.Rules().Poll, failures); waited += slice {
		select {
		case <-ctx.Done():
			return
		case <-hints:
			if w.syncRequested(ctx) {
				return
			}
		case <-time.After(slice):
		}
	}
}

// pause doubles the wait after each failure but the first, so that a single failure does not delay the next commit.
func pause(poll time.Duration, failures int) time.Duration {
	wait := poll
	for ; failures > 1 && wait < longestWait; failures-- {
		wait *= 2
	}
	return max(poll, min(wait, longestWait))
}

// syncRequested reports whether a poll was requested or a waiting revision was decided. A hint does
// not name its source, and a poll costs a fetch, so the watcher reads the source's row first.
func (w *watcher) syncRequested(ctx context.Context) bool {
	state, err := w.Desired.SourceByName(ctx, w.Desired.DB, w.spec.Name)
	if err != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	answered := state.RequestedAt == nil || w.answered != nil && !state.RequestedAt.After(*w.answered)
	return !answered || state.Latest.Status == revision.StatusPlanned && state.Suspended == nil
}

func (w *watcher) answer(asked *time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = asked
}

// pollSource polls once within the timeout and records the result.
func (w *watcher) pollSource(ctx context.Context) (rev revision.Revision, err error) {
	w.turn.Lock()
	defer w.turn.Unlock()
	within, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	seen, rev, err := w.guarded(within)
	if ctx.Err() != nil {
		return rev, ctx.Err() // the server stops; that is no fault of the source
	}
	w.Metrics.count(w.spec.Name, resultOf(rev, err))
	seen.Fault = err
	if kept := w.Desired.RecordFetch(ctx, w.spec.Name, seen); kept != nil && err == nil {
		err = kept
	}
	w.report(ctx, rev, err)
	w.review(ctx)
	return rev, err
}

// guarded recovers from a panic. Strangers write the content of a repository, and a bug in its
// reader must not end the server.
func (w *watcher) guarded(ctx context.Context) (seen revision.Fetched, rev revision.Revision, err error) {
	defer w.unbroken(ctx, &err)
	// Another server has moved the source in the meantime. Read its state again and retry.
	for range tries {
		if seen, rev, err = w.syncOnce(ctx); errs.CodeOf(err) != errs.Conflict {
			break
		}
	}
	return seen, rev, err
}

// unbroken turns a panic into an error of the source.
func (w *watcher) unbroken(ctx context.Context, err *error) {
	if broken := recover(); broken != nil {
		w.Log.ErrorContext(ctx, "reading a source broke", "component", "git", "source", w.spec.Name, "err", broken, "stack", string(debug.Stack()))
		*err = errs.New(errs.Unavailable, "reading the source broke").Because(fmt.Errorf("%v", broken))
	}
}

// tries limits the retries: two replicas that poll at once conflict only once.
const tries = 3

// report logs a change of the source's condition, once.
func (w *watcher) report(ctx context.Context, rev revision.Revision, err error) {
	fault := ""
	switch {
	case err != nil:
		fault = err.Error()
	case rev.Status != "" && rev.Status != revision.StatusApplied:
		fault = Reason(rev)
	}
	w.mu.Lock()
	changed := w.reason != fault
	w.reason = fault
	w.mu.Unlock()
	if !changed || fault == "" {
		return
	}
	w.Log.WarnContext(ctx, "source not followed, the last good revision stays", "component", "git", "source", w.spec.Name, "reason", fault)
}

func (w *watcher) fault() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reason
}

// Reason returns why a revision is not applied.
func Reason(rev revision.Revision) string {
	for _, f := range rev.Findings {
		return f.String()
	}
	for _, one := range rev.Waits {
		return fmt.Sprintf("revision %d waits: %s", rev.Revision, one.Message)
	}
	return rev.Status
}
