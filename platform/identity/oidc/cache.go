package oidc

import (
	"context"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	// Keys are cached for 5 minutes (decision 29). A withdrawn key is accepted for this time.
	freshFor = 5 * time.Minute
	// missEvery limits how often an unknown key causes a fetch. Without the limit, forged key names
	// could make this server flood the provider.
	missEvery = 10 * time.Second
	// The pause between requests to an unavailable provider: with a cached document, and without one.
	staleEvery, emptyEvery = 10 * time.Second, time.Second
	// One fetch, whole.
	fetchWithin = 5 * time.Second
)

// cached is a document of the provider. The first request that needs it fetches it, one fetch at a time.
// It is renewed in the background, and the old value stays in use while a fetch fails.
type cached[T any] struct {
	fetch func(context.Context) (T, error)
	clock clock.Clock

	mu    sync.Mutex
	value T
	have  bool
	lost  error // why the last fetch failed
	// When it was fetched; when that was last tried, and for want of something.
	at, tried, missed time.Time
	flight            chan struct{}
}

// get returns the document, after a fetch when that one is not enough. Whether
// what it returns is enough is for the caller to see.
func (k *cached[T]) get(ctx context.Context, enough func(T) bool) (T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// Twice: a fetch that was under way may have been too early for us.
	for range 2 {
		good := k.have && enough(k.value)
		if k.flight == nil && k.due(good) {
			k.start(ctx)
		}
		if good || k.flight == nil {
			break
		}
		if err := k.wait(ctx, k.flight); err != nil {
			return k.value, err
		}
	}
	if !k.have {
		return k.value, errs.New(errs.Unavailable, "the sign-in provider cannot be reached").Try("repeat the request in a moment").Because(k.lost)
	}
	return k.value, nil
}

// due is checked under the same lock as the start of the fetch. A request that arrives right after a
// fetch therefore uses its result and is not rejected for coming too early.
func (k *cached[T]) due(good bool) bool {
	now := k.clock.Now()
	switch {
	case !k.have:
		return now.Sub(k.tried) >= emptyEvery
	case !good && now.Sub(k.missed) >= missEvery:
		k.missed = now
		return true
	}
	return now.Sub(k.at) >= freshFor && now.Sub(k.tried) >= staleEvery
}

// start outlives the request that caused it: others wait for it, too.
func (k *cached[T]) start(ctx context.Context) {
	k.tried = k.clock.Now()
	done := make(chan struct{})
	k.flight = done
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchWithin)
	go func() {
		defer cancel()
		value, err := k.fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.lost = err; err == nil {
			k.value, k.have, k.at = value, true, k.clock.Now()
		}
		k.flight = nil
		close(done)
	}()
}

func (k *cached[T]) wait(ctx context.Context, flight chan struct{}) error {
	k.mu.Unlock()
	defer k.mu.Lock()
	select {
	case <-flight:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
