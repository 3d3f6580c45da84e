package rest

import (
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Class of requests that share a bucket.
type Class uint8

// The classes. An actor's reads cannot use up what it may write.
const (
	ClassRead Class = iota
	ClassWrite
	ClassAnonymous // failed sign-ins, by address
	ClassSignIn    // by address
)

func (c Class) String() string {
	return [...]string{"read", "write", "anonymous", "sign-in"}[c]
}

// Limit is how many requests a minute an actor gets back, and how many it may
// have saved up.
type Limit struct{ PerMinute, Burst int }

// DefaultLimits are those of the policies where nobody has set any.
func DefaultLimits(class Class, _ identity.Caller) Limit {
	return LimitOf(class, policies.Snapshot{}.For())
}

// LimitOf reads the limit of a class as the policies say it for one caller.
func LimitOf(class Class, v policies.View) Limit {
	l := Limit{Burst: int(v.Int(policies.RateLimitBurst))}
	switch class {
	case ClassRead:
		l.PerMinute = int(v.Int(policies.RateLimitUserPerMinute))
	case ClassWrite:
		l.PerMinute = int(v.Int(policies.RateLimitMutationPerMinute))
	case ClassAnonymous:
		l.PerMinute = int(v.Int(policies.RateLimitAnonymousPerMinute))
	case ClassSignIn:
		l.PerMinute = int(v.Int(policies.RateLimitSignInPerMinute))
		l.Burst = min(l.Burst, l.PerMinute) // guesses are not saved up
	}
	return l
}

// limitRate charges the request to its actor. Probes pass: a monitor that is
// refused would call the service ill.
func (s *Server) limitRate(c *gin.Context, r *call) error {
	if r.op.public {
		return nil
	}
	return s.charge(c, r.op.class, r.caller)
}

func (s *Server) charge(c *gin.Context, class Class, caller identity.Caller) error {
	key := bucketKey{class: class, id: caller.Principal()}
	if class == ClassAnonymous || class == ClassSignIn {
		key.id = addressOf(c)
	}
	limit, known := s.buckets.limit(key)
	if !known {
		limit = s.Limits(class, caller)
	}
	left, full, wait := s.buckets.take(key, limit)
	writeLimit(c, class, limit, left, full)
	if wait == 0 {
		return nil
	}
	c.Header("Retry-After", strconv.Itoa(seconds(wait)))
	return errs.New(errs.RateLimited, "more than %d requests at once, at %d a minute", limit.Burst, limit.PerMinute).
		Try("wait %d seconds", seconds(wait))
}

func addressOf(c *gin.Context) [16]byte {
	a, err := netip.ParseAddrPort(c.Request.RemoteAddr)
	if err != nil { // a Unix socket has no address: its users share one bucket
		return [16]byte{}
	}
	return a.Addr().As16()
}

// seconds rounds up: a client that waits them finds its token there.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// writeLimit sets both families of headers. They share one array, since this is
// on the way of every request.
func writeLimit(c *gin.Context, class Class, l Limit, left int, full time.Duration) {
	burst, remaining, reset := strconv.Itoa(l.Burst), strconv.Itoa(left), strconv.Itoa(seconds(full))
	window := strconv.Itoa(seconds(time.Duration(l.Burst) * interval(l)))
	values := [...]string{
		burst, remaining, reset,
		`"` + class.String() + `";q=` + burst + `;w=` + window,
		`"` + class.String() + `";r=` + remaining + `;t=` + reset,
	}
	h := c.Writer.Header()
	h["X-Ratelimit-Limit"] = values[0:1:1]
	h["X-Ratelimit-Remaining"] = values[1:2:2]
	h["X-Ratelimit-Reset"] = values[2:3:3]
	h["Ratelimit-Policy"] = values[3:4:4]
	h["Ratelimit"] = values[4:5:5]
}

type bucketKey struct {
	class Class
	id    [16]byte
}

// buckets are token buckets, each kept as the one time at which it is full again
// (GCRA), so that a bucket nobody uses needs no row and no refill.
type buckets struct {
	clock clock.Clock

	mu    sync.Mutex
	all   map[bucketKey]bucket
	swept time.Time
}

type bucket struct {
	full  time.Time
	limit Limit
	asked time.Time // when the limit was read
}

const (
	// Full buckets are dropped this often; in between, so many actors fit into
	// about 12 MB. Beyond it the map is swept with each new request.
	sweepEvery = time.Minute
	maxBuckets = 100_000
	// A changed policy is felt this late at most; reading it for each request
	// would cost more than all the rest of the limiter.
	limitFor = time.Second
)

func interval(l Limit) time.Duration { return time.Minute / time.Duration(max(l.PerMinute, 1)) }

// limit is what the bucket was last measured by, if that was a moment ago.
func (b *buckets) limit(key bucketKey) (Limit, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	have, ok := b.all[key]
	return have.limit, ok && b.clock.Now().Sub(have.asked) < limitFor
}

// take removes one token. It returns how many are left, when the bucket is full
// again, and how long to wait when there was none.
func (b *buckets) take(key bucketKey, l Limit) (left int, full, wait time.Duration) {
	each := interval(l)
	holds := each * time.Duration(max(l.Burst, 1))
	now := b.clock.Now()

	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	have := b.all[key]
	if have.limit != l || now.Sub(have.asked) >= limitFor {
		have.limit, have.asked = l, now
	}
	if have.full.Before(now) {
		have.full = now
	}
	next := have.full.Add(each)
	if over := next.Sub(now) - holds; over > 0 {
		b.all[key] = have
		return 0, have.full.Sub(now), over
	}
	have.full = next
	b.all[key] = have
	return int((holds - next.Sub(now)) / each), next.Sub(now), 0
}

func (b *buckets) sweep(now time.Time) {
	if b.all == nil {
		b.all, b.swept = map[bucketKey]bucket{}, now
	}
	if now.Sub(b.swept) < sweepEvery && len(b.all) < maxBuckets {
		return
	}
	b.swept = now
	for k, have := range b.all {
		if have.full.Before(now) {
			delete(b.all, k)
		}
	}
}
