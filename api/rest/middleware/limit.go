package middleware

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Limit is a token bucket: the requests a minute that an actor regains, and the most that it can
// accumulate.
type Limit struct{ PerMinute, Burst int }

func (l Limit) interval() time.Duration { return time.Minute / time.Duration(max(l.PerMinute, 1)) }
func (l Limit) holds() time.Duration    { return l.interval() * time.Duration(max(l.Burst, 1)) }

// DefaultLimits returns the default limits of the policies.
func DefaultLimits(class request.Class, _ identity.Caller) Limit {
	return LimitOf(class, policies.Snapshot{}.For())
}

// LimitOf returns the limit of a class that the policies set for one caller.
func LimitOf(class request.Class, v policies.View) Limit {
	l := Limit{Burst: int(v.Int(policies.RateLimitBurst))}
	switch class {
	case request.ClassNone, request.Classes:
	case request.ClassRead:
		l.PerMinute = int(v.Int(policies.RateLimitUserPerMinute))
	case request.ClassWrite, request.ClassToken, request.ClassEnrolment, request.ClassPayment, request.ClassPlan:
		l.PerMinute = int(v.Int(policies.RateLimitMutationPerMinute))
	case request.ClassTenant:
		// The burst of the tenant allows as many users at once as its rate allows.
		l.PerMinute = int(v.Int(policies.RateLimitTenantPerMinute))
		l.Burst = max(l.Burst, l.Burst*l.PerMinute/max(int(v.Int(policies.RateLimitUserPerMinute)), 1))
	case request.ClassStorage:
		l.PerMinute = int(v.Int(policies.RateLimitStoragePerMinute))
		l.Burst = max(l.Burst, l.PerMinute/10)
	case request.ClassAnonymous:
		l.PerMinute = int(v.Int(policies.RateLimitAnonymousPerMinute))
	case request.ClassSignIn:
		l.PerMinute = int(v.Int(policies.RateLimitSignInPerMinute))
		l.Burst = min(l.Burst, l.PerMinute) // attempts to sign in do not accumulate beyond one minute
	case request.ClassAccount:
		l.PerMinute = int(v.Int(policies.RateLimitAccountPerMinute))
		l.Burst = min(l.Burst, l.PerMinute)
	}
	return l
}

// limitRate charges the request to its actor, and to their tenant.
func (s *Chain) limitRate(c *gin.Context, r *request.Call) error {
	if r.Op.Class == request.ClassNone {
		return nil
	}
	if r.Op.Class == request.ClassStorage {
		return s.chargeBucket(c, bucketKey{class: r.Op.Class, id: r.Caller.Tenant.UUID}, r.Caller)
	}
	if err := s.Charge(c, r.Op.Class, r.Caller); err != nil || r.Caller.Tenant == (ids.Tenant{}) {
		return err
	}
	return s.chargeTenant(c, r.Caller)
}

// Charge counts a request in the bucket of the caller, or of the address without a caller.
func (s *Chain) Charge(c *gin.Context, class request.Class, caller identity.Caller) error {
	key := bucketKey{class: class, id: caller.Principal()}
	if key.id == [16]byte{} {
		key.id = addressOf(c.Request)
	}
	return s.chargeBucket(c, key, caller)
}

func (s *Chain) chargeBucket(c *gin.Context, key bucketKey, caller identity.Caller) error {
	t := s.limiter.admit(key, caller)
	_, r := request.Of(c.Request.Context())
	showLimit(r, c.Writer.Header(), t)
	if t.wait > 0 {
		return s.overLimit(c, t)
	}
	if key.class.Strict() {
		return s.askShared(c, t.key, t)
	}
	s.limiter.countAllowed(key.class)
	return nil
}

// chargeTenant charges the bucket of the tenant. It shows this bucket only to callers whom it rejects,
// because a client can only influence its own one.
func (s *Chain) chargeTenant(c *gin.Context, caller identity.Caller) error {
	t := s.limiter.admit(bucketKey{class: request.ClassTenant, id: caller.Tenant.UUID}, caller)
	if t.wait == 0 {
		s.limiter.countAllowed(request.ClassTenant)
		return nil
	}
	_, r := request.Of(c.Request.Context())
	showLimit(r, c.Writer.Header(), t)
	return s.overLimit(c, t)
}

func (s *Chain) overLimit(c *gin.Context, t admission) error {
	s.limiter.count(t.class, limited)
	c.Header("Retry-After", strconv.Itoa(seconds(t.wait)))
	who := "more"
	if t.class == request.ClassTenant {
		who = "your tenant sent more"
	}
	return errs.New(errs.RateLimited, "%s than %d requests at once, at %d a minute", who, t.limit.Burst, t.limit.PerMinute).
		Try("wait %d seconds", seconds(t.wait))
}

// addressOf returns the address of the sender, which Front has determined. IPv6 addresses are
// reduced to their network of 64 bits, because one client usually controls all addresses in it.
func addressOf(r *http.Request) [16]byte {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // a Unix socket has no address: its users share one bucket
		return [16]byte{}
	}
	from := a.Addr().Unmap().WithZone("")
	if from.Is6() {
		from = netip.PrefixFrom(from, 64).Masked().Addr()
	}
	return from.As16()
}

// seconds rounds up, so that a token is available to a client that waits for this time.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// showLimit sets both families of headers. Their values are substrings of two texts, which saves
// allocations, because this code runs for every request.
func showLimit(r *request.Call, h http.Header, t admission) {
	var room [64]byte
	text := append(append(append(room[:0], '"'), t.class.String()...), `";r=`...)
	from := len(text)
	text = strconv.AppendInt(text, int64(t.left), 10)
	to := len(text)
	text = append(text, ";t="...)
	rate := string(strconv.AppendInt(text, int64(seconds(t.full)), 10))

	r.Header(h, "X-Ratelimit-Limit", request.AtLimit, t.policy[t.burst[0]:t.burst[1]])
	r.Header(h, "X-Ratelimit-Remaining", request.AtRemaining, rate[from:to])
	r.Header(h, "X-Ratelimit-Reset", request.AtReset, rate[to+len(";t="):])
	r.Header(h, "Ratelimit-Policy", request.AtPolicy, t.policy)
	r.Header(h, "Ratelimit", request.AtRate, rate)
}
