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

// DefaultLimits are those of the policies' defaults.
func DefaultLimits(class Class, _ identity.Caller) Limit {
	switch class {
	case ClassRead:
		return Limit{600, 60}
	case ClassWrite:
		return Limit{120, 60}
	case ClassAnonymous:
		return Limit{60, 60}
	case ClassSignIn:
		return Limit{10, 10}
	}
	return Limit{60, 60}
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
	limit := s.Limits(class, caller)
	key := bucketKey{class: class, id: caller.User.UUID}
	if class == ClassAnonymous || class == ClassSignIn {
		key.id = addressOf(c)
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
	full  map[bucketKey]time.Time
	swept time.Time
}

// Full buckets are dropped now and then; in between, this many actors fit into
// about 6 MB. Beyond it the map is swept with each new actor.
const (
	sweepEvery = time.Minute
	maxBuckets = 100_000
)

func interval(l Limit) time.Duration { return time.Minute / time.Duration(max(l.PerMinute, 1)) }

// take removes one token. It returns how many are left, when the bucket is full
// again, and how long to wait when there was none.
func (b *buckets) take(key bucketKey, l Limit) (left int, full, wait time.Duration) {
	each := interval(l)
	holds := each * time.Duration(max(l.Burst, 1))
	now := b.clock.Now()

	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	at := b.full[key]
	if at.Before(now) {
		at = now
	}
	next := at.Add(each)
	if over := next.Sub(now) - holds; over > 0 {
		return 0, at.Sub(now), over
	}
	b.full[key] = next
	return int((holds - next.Sub(now)) / each), next.Sub(now), 0
}

func (b *buckets) sweep(now time.Time) {
	if b.full == nil {
		b.full, b.swept = map[bucketKey]time.Time{}, now
	}
	if now.Sub(b.swept) < sweepEvery && len(b.full) < maxBuckets {
		return
	}
	b.swept = now
	for k, at := range b.full {
		if at.Before(now) {
			delete(b.full, k)
		}
	}
}
