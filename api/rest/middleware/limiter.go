package middleware

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// SharedLimits are the buckets that all replicas share. They may be unavailable.
type SharedLimits interface {
	Allow(ctx context.Context, bucket string, each, holds time.Duration) (allowed bool, fullIn time.Duration, err error)
	Share(ctx context.Context, spent map[string]time.Duration, within time.Duration) (fullIn map[string]time.Duration, err error)
	DeleteFull(ctx context.Context) error
}

// limiter counts requests in this process, and adds the counts of the other replicas a moment later. A
// bucket is the one time at which it is full again (GCRA), so that an unused bucket needs no row and
// no refill.
type limiter struct {
	clock  clock.Clock
	limits func(request.Class, identity.Caller) Limit
	shared SharedLimits // nil if this is the only replica

	away      atomic.Bool // the last query of the shared buckets failed
	decisions [request.Classes][results]atomic.Uint64

	mu    sync.Mutex
	all   map[bucketKey]bucket
	moved []bucketKey // buckets charged since the last exchange
	swept time.Time

	shares time.Time // time of the last exchange; only Share uses it
}

type bucketKey struct {
	class request.Class
	id    [16]byte
}

// String is the bucket's name in the database.
func (k bucketKey) String() string { return k.class.String() + ":" + hex.EncodeToString(k.id[:]) }

type bucket struct {
	full   time.Time
	spent  time.Duration // charges since the last exchange
	limit  Limit
	policy string    // the limit, as the value of its header
	burst  [2]int    // position of the burst in policy
	readAt time.Time // when the limit was read
}

const (
	// Full buckets are deleted every sweepEvery. Until then maxBuckets actors fit into about 20 MB.
	// Above that number, full buckets are deleted sooner.
	sweepEvery = time.Minute
	maxBuckets = 100_000
	// limitFor is the time for which a limit is cached, so a changed policy takes effect after at
	// most this time. Reading the policy for each request would cost more than the rest of the
	// limiter.
	limitFor = time.Second
	// shareEvery is the interval at which the replicas exchange charges. One statement with
	// shareMost buckets runs for some milliseconds; more buckets wait for the next statement.
	shareEvery = time.Second
	shareMost  = 10_000
	// Above maxBuckets, new actors share overflowBuckets for each class until a sweep deletes buckets. A
	// sweep of a full map runs at most every sweepFull, because it costs a millisecond.
	overflowBuckets = 1024
	sweepFull       = time.Second
	// askFor limits the query of the shared buckets during a sign-in. A database that responds
	// later counts as unavailable.
	askFor = 2 * time.Second
)

// result is the result of a decision, as the metrics count it.
type result int

const (
	passed result = iota
	limited
	failOpen
	failClosed
	results
)

var resultNames = [results]string{"allowed", "limited", "fail_open", "fail_closed"}

func (l *limiter) count(class request.Class, r result) { l.decisions[class][r].Add(1) }

// countAllowed counts a request that is allowed. It separates requests during which the shared buckets
// were away.
func (l *limiter) countAllowed(class request.Class) {
	if l.away.Load() {
		l.count(class, failOpen)
		return
	}
	l.count(class, passed)
}

// admission is the state of a bucket after a request.
type admission struct {
	key    bucketKey // of the bucket, which is another one than requested while the map is full
	class  request.Class
	limit  Limit
	policy string
	burst  [2]int
	left   int
	full   time.Duration // until the bucket is full again
	wait   time.Duration // until a token is available; 0 if one was
}

// admit removes one token.
func (l *limiter) admit(key bucketKey, caller identity.Caller) admission {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	key = l.fit(key)
	b, ok := l.all[key]
	if !ok || now.Sub(b.readAt) >= limitFor {
		b.setLimit(key.class, l.limits(key.class, caller), now)
	}
	if b.full.Before(now) {
		b.full = now
	}
	t := admission{key: key, class: key.class, limit: b.limit, policy: b.policy, burst: b.burst}
	each, holds := b.limit.interval(), b.limit.holds()
	next := b.full.Add(each)
	if over := next.Sub(now) - holds; over > 0 {
		t.full, t.wait = b.full.Sub(now), over
		l.all[key] = b
		return t
	}
	b.full = next
	if l.shared != nil && !key.class.Strict() {
		l.owe(&b, key, each)
	}
	l.all[key] = b
	t.left, t.full = int((holds-next.Sub(now))/each), next.Sub(now)
	return t
}

// owe records a charge that the other replicas must receive.
func (l *limiter) owe(b *bucket, key bucketKey, spent time.Duration) {
	if b.spent == 0 && len(l.moved) < maxBuckets {
		l.moved = append(l.moved, key)
	}
	b.spent += spent
}

// fit returns the key, or one of the shared keys for a new actor while the map is full.
func (l *limiter) fit(key bucketKey) bucketKey {
	if _, ok := l.all[key]; ok || len(l.all) < maxBuckets {
		return key
	}
	h := fnv.New32a()
	_, _ = h.Write(key.id[:])
	shared := bucketKey{class: key.class}
	copy(shared.id[:], "overflow")
	binary.BigEndian.PutUint32(shared.id[12:], h.Sum32()%overflowBuckets)
	return shared
}

// setLimit stores the current limit. It formats the header again only if the limit has changed.
func (b *bucket) setLimit(class request.Class, limit Limit, now time.Time) {
	b.readAt = now
	if limit == b.limit && b.policy != "" {
		return
	}
	b.limit = limit
	head := `"` + class.String() + `";q=`
	b.policy = fmt.Sprintf("%s%d;w=%d", head, limit.Burst, seconds(limit.holds()))
	b.burst = [2]int{len(head), len(head) + len(fmt.Sprint(limit.Burst))}
}

func (l *limiter) sweep(now time.Time) {
	if l.all == nil {
		l.all, l.swept = map[bucketKey]bucket{}, now
	}
	if pause := now.Sub(l.swept); pause < sweepFull || pause < sweepEvery && len(l.all) < maxBuckets {
		return
	}
	l.swept = now
	for k, b := range l.all {
		// Charges that the other replicas have not received stay, unless the map is full.
		if b.full.Before(now) && (b.spent == 0 || len(l.all) >= maxBuckets) {
			delete(l.all, k)
		}
	}
}

// askShared queries the shared buckets for the classes in which an attacker could guess a secret.
// If each replica counted for itself, every replica would give the attacker additional attempts.
func (s *Chain) askShared(c *gin.Context, key bucketKey, t admission) error {
	l := &s.limiter
	if l.shared == nil {
		l.count(key.class, passed)
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), askFor)
	defer cancel()
	allowed, fullIn, err := l.shared.Allow(ctx, key.String(), t.limit.interval(), t.limit.holds())
	if err != nil {
		l.count(key.class, failClosed)
		return errs.New(errs.LimiterUnavailable, "it cannot be known how often this was tried").Try("repeat the request in a moment").Because(err)
	}
	l.learn(key, fullIn)
	t.full = fullIn
	t.left = max(0, int((t.limit.holds()-fullIn)/t.limit.interval()))
	if !allowed {
		t.wait = max(fullIn+t.limit.interval()-t.limit.holds(), 1)
	}
	_, r := request.Of(c.Request.Context())
	showLimit(r, c.Writer.Header(), t)
	if !allowed {
		return s.overLimit(c, t)
	}
	l.count(key.class, passed)
	return nil
}

// learn raises a bucket to its shared state, because this process does not count all requests.
func (l *limiter) learn(key bucketKey, fullIn time.Duration) {
	full := l.clock.Now().Add(fullIn)
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, ok := l.all[key]; ok && full.After(b.full) {
		b.full = full
		l.all[key] = b
	}
}

// ShareLimits exchanges the charges of each second with the other replicas until ctx ends. Without
// requests it queries nothing.
func (s *Chain) ShareLimits(ctx context.Context) error {
	if s.limiter.shared == nil {
		return nil
	}
	tick := time.NewTicker(shareEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.Share(ctx)
		if n%int(sweepEvery/shareEvery) == 0 {
			if err := s.limiter.shared.DeleteFull(ctx); err != nil {
				s.Log.DebugContext(ctx, "full rate limits were dropped", slog.Any("err", err))
			}
		}
	}
}

// Share exchanges rate limits with the other replicas once. While the database is away, charges are
// stored for the next call.
func (s *Chain) Share(ctx context.Context) {
	l := &s.limiter
	keys, spent, at := l.collect()
	if len(keys) == 0 && !l.away.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	fullIn, err := l.shared.Share(ctx, spent, at.Sub(l.shares))
	if l.away.Swap(err != nil) != (err != nil) {
		if err != nil {
			s.Log.WarnContext(ctx, "rate limits are not shared", slog.Any("err", err))
		} else {
			s.Log.InfoContext(ctx, "rate limits are shared again")
		}
	}
	// After a failed exchange, or with more than shareMost buckets, the next exchange covers this
	// time, too.
	if err == nil && len(keys) < shareMost {
		l.shares = at
	}
	l.applyCounts(keys, spent, fullIn)
}

// collect returns the charges since the last exchange.
func (l *limiter) collect() (keys map[string]bucketKey, spent map[string]time.Duration, now time.Time) {
	now = l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.moved), shareMost)
	keys, spent = make(map[string]bucketKey, n), make(map[string]time.Duration, n)
	for _, key := range l.moved[:n] {
		b, ok := l.all[key]
		if !ok || b.spent == 0 {
			continue // sweep has deleted the bucket
		}
		name := key.String()
		keys[name], spent[name] = key, b.spent
		b.spent = 0
		l.all[key] = b
	}
	l.moved = append(l.moved[:0], l.moved[n:]...)
	return keys, spent, now
}

// applyCounts sets the shared state of the buckets. Charges that were not received are exchanged again.
func (l *limiter) applyCounts(keys map[string]bucketKey, spent, fullIn map[string]time.Duration) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, key := range keys {
		b, ok := l.all[key]
		left, heard := fullIn[name]
		switch {
		case !ok:
			continue
		case !heard:
			l.owe(&b, key, spent[name])
		default:
			// Requests since collect have added to b.spent.
			if full := now.Add(left + b.spent); full.After(b.full) {
				b.full = full
			}
		}
		l.all[key] = b
	}
}
