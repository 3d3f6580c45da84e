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
	kept   string // the tree that the cache stands at

	turn  sync.Mutex     // one look at a time: somebody may ask for one beside the clock's
	held  *validatedTree // what was validated and is not applied: the next look need not read it again
	pulls map[int]string // what was said of each pull request, and about what

	mu   sync.Mutex
	said string // why, for healthz; empty when the source is followed
	// answered is when somebody had asked for the last look. By the database's clock
	// alone: a look and a request may be of two servers.
	answered *time.Time
}

const (
	// A fetch and an evaluation at their own limits take less than half of it.
	pollTimeout = 2 * time.Minute
	// A repository that is away is asked less and less often.
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

// run looks at the source again and again. Losing it costs nothing but news.
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

// rest waits for the period, longer after failures, or until somebody asks.
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

func pause(poll time.Duration, failures int) time.Duration {
	wait := poll
	for ; failures > 1 && wait < longestWait; failures-- {
		wait *= 2
	}
	return max(poll, min(wait, longestWait))
}

// syncRequested: somebody asked for a look, or decided about what waits. A hint names no
// source, and a look costs a fetch.
func (w *watcher) syncRequested(ctx context.Context) bool {
	state, err := w.Desired.SourceByName(ctx, w.Desired.DB, w.spec.Name)
	if err != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	answered := state.AskedAt == nil || w.answered != nil && !state.AskedAt.After(*w.answered)
	return !answered || state.Latest.Status == revision.StatusPlanned && state.Suspended == nil
}

func (w *watcher) answer(asked *time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answered = asked
}

// pollSource is one look, within its time, and leaves word of what it found.
func (w *watcher) pollSource(ctx context.Context) (rev revision.Revision, err error) {
	w.turn.Lock()
	defer w.turn.Unlock()
	within, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	seen, rev, err := w.guarded(within)
	if ctx.Err() != nil {
		return rev, ctx.Err() // the server stops; that is no fault of the source
	}
	w.Figures.count(w.spec.Name, resultOf(rev, err))
	seen.Fault = err
	if kept := w.Desired.Saw(ctx, w.spec.Name, seen); kept != nil && err == nil {
		err = kept
	}
	w.report(ctx, rev, err)
	w.review(ctx)
	return rev, err
}

// guarded: what a repository holds is written by strangers, and a reader that
// breaks over it must not take the server along.
func (w *watcher) guarded(ctx context.Context) (seen revision.Seen, rev revision.Revision, err error) {
	defer w.unbroken(ctx, &err)
	// Whoever was faster has moved the source; then what it says now is looked at.
	for range tries {
		if seen, rev, err = w.once(ctx); errs.CodeOf(err) != errs.Conflict {
			break
		}
	}
	return seen, rev, err
}

func (w *watcher) unbroken(ctx context.Context, err *error) {
	if broken := recover(); broken != nil {
		w.Log.ErrorContext(ctx, "reading a source broke", "component", "git", "source", w.spec.Name, "err", broken, "stack", string(debug.Stack()))
		*err = errs.New(errs.Unavailable, "reading the source broke").Because(fmt.Errorf("%v", broken))
	}
}

// Two replicas that look at once meet once.
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
	changed := w.said != fault
	w.said = fault
	w.mu.Unlock()
	if !changed || fault == "" {
		return
	}
	w.Log.WarnContext(ctx, "source not followed, the last good revision stays", "component", "git", "source", w.spec.Name, "reason", fault)
}

func (w *watcher) fault() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}

// Reason is why a revision is not applied.
func Reason(rev revision.Revision) string {
	for _, f := range rev.Findings {
		return f.String()
	}
	for _, one := range rev.Waits {
		return fmt.Sprintf("revision %d waits: %s", rev.Revision, one.Message)
	}
	return rev.Status
}
