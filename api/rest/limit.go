package rest

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Class of requests that share a bucket.
type Class uint8

// The classes. An actor's reads cannot use up what it may write.
const (
	ClassNone      Class = iota // probes: a monitor that is refused would call the service ill
	ClassRead                   //
	ClassWrite                  //
	ClassTenant                 // what all actors of a tenant ask together
	ClassAnonymous              // failed tries, by address
	ClassSignIn                 // by address
	ClassToken                  // minting tokens
	ClassEnrolment              //
	ClassPayment                //
	ClassPlan                   // what is as much work as a commit
	classes
)

var classNames = [classes]string{"none", "read", "write", "tenant", "anonymous", "sign-in", "token", "enrolment", "payment", "plan"}

func (c Class) String() string { return classNames[c] }

// strict classes are those where a try too many is worth something to an
// attacker. They ask the database each time, and are refused when it is away.
func (c Class) strict() bool {
	switch c {
	case ClassSignIn, ClassToken, ClassEnrolment, ClassPayment:
		return true
	case ClassNone, ClassRead, ClassWrite, ClassTenant, ClassAnonymous, ClassPlan, classes:
	}
	return false
}

// classOf is the class that the contract names with x-limit. Without a word it is
// the method's; and a write that is open to everyone is a sign-in.
func classOf(op *operation, o openapi.Operation) (class Class, known bool) {
	if word, ok := o.Extensions["x-limit"].(string); ok {
		i := slices.Index(classNames[:], word)
		return Class(max(i, 0)), i >= 0 //nolint:gosec // one of a few
	}
	switch {
	case op.public && op.write:
		return ClassSignIn, true
	case op.public:
		return ClassNone, true
	case op.write:
		return ClassWrite, true
	}
	return ClassRead, true
}

// Limit is how many requests a minute an actor gets back, and how many it may
// have saved up.
type Limit struct{ PerMinute, Burst int }

func (l Limit) each() time.Duration  { return time.Minute / time.Duration(max(l.PerMinute, 1)) }
func (l Limit) holds() time.Duration { return l.each() * time.Duration(max(l.Burst, 1)) }

// DefaultLimits are those of the policies where nobody has set any.
func DefaultLimits(class Class, _ identity.Caller) Limit {
	return LimitOf(class, policies.Snapshot{}.For())
}

// LimitOf reads the limit of a class as the policies say it for one caller.
func LimitOf(class Class, v policies.View) Limit {
	l := Limit{Burst: int(v.Int(policies.RateLimitBurst))}
	switch class {
	case ClassNone, classes:
	case ClassRead:
		l.PerMinute = int(v.Int(policies.RateLimitUserPerMinute))
	case ClassWrite, ClassToken, ClassEnrolment, ClassPayment, ClassPlan:
		l.PerMinute = int(v.Int(policies.RateLimitMutationPerMinute))
	case ClassTenant:
		// As many people may begin at once as may go on at once.
		l.PerMinute = int(v.Int(policies.RateLimitTenantPerMinute))
		l.Burst = max(l.Burst, l.Burst*l.PerMinute/max(int(v.Int(policies.RateLimitUserPerMinute)), 1))
	case ClassAnonymous:
		l.PerMinute = int(v.Int(policies.RateLimitAnonymousPerMinute))
	case ClassSignIn:
		l.PerMinute = int(v.Int(policies.RateLimitSignInPerMinute))
		l.Burst = min(l.Burst, l.PerMinute) // guesses are not saved up
	}
	return l
}

// limitRate charges the request to its actor, and to their tenant.
func (s *Server) limitRate(c *gin.Context, r *call) error {
	if r.op.class == ClassNone {
		return nil
	}
	if err := s.charge(c, r.op.class, r.caller); err != nil || r.caller.Tenant == (ids.Tenant{}) {
		return err
	}
	return s.chargeTenant(c, r.caller)
}

func (s *Server) charge(c *gin.Context, class Class, caller identity.Caller) error {
	key := bucketKey{class: class, id: caller.Principal()}
	if key.id == [16]byte{} {
		key.id = addressOf(c.Request)
	}
	t := s.limiter.take(key, caller)
	_, r := of(c.Request.Context())
	r.showLimit(c.Writer.Header(), t)
	if t.wait > 0 {
		return s.overLimit(c, t)
	}
	if class.strict() {
		return s.askShared(c, key, t)
	}
	s.limiter.countAllowed(class)
	return nil
}

// chargeTenant shows the tenant's bucket only to whom it refuses: the own one is
// what a client can do something about.
func (s *Server) chargeTenant(c *gin.Context, caller identity.Caller) error {
	t := s.limiter.take(bucketKey{class: ClassTenant, id: caller.Tenant.UUID}, caller)
	if t.wait == 0 {
		s.limiter.countAllowed(ClassTenant)
		return nil
	}
	_, r := of(c.Request.Context())
	r.showLimit(c.Writer.Header(), t)
	return s.overLimit(c, t)
}

func (s *Server) overLimit(c *gin.Context, t taken) error {
	s.limiter.count(t.class, limited)
	c.Header("Retry-After", strconv.Itoa(seconds(t.wait)))
	who := "more"
	if t.class == ClassTenant {
		who = "your tenant sent more"
	}
	return errs.New(errs.RateLimited, "%s than %d requests at once, at %d a minute", who, t.limit.Burst, t.limit.PerMinute).
		Try("wait %d seconds", seconds(t.wait))
}

// addressOf is where the request comes from, as Front has found.
// Whoever has one IPv6 address has the 64 bits after its network, too.
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

// seconds rounds up: a client that waits them finds its token there.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// showLimit sets both families of headers. They are cut from two texts, since
// this is on the way of every request.
func (r *call) showLimit(h http.Header, t taken) {
	var room [64]byte
	text := append(append(append(room[:0], '"'), t.class.String()...), `";r=`...)
	from := len(text)
	text = strconv.AppendInt(text, int64(t.left), 10)
	to := len(text)
	text = append(text, ";t="...)
	rate := string(strconv.AppendInt(text, int64(seconds(t.full)), 10))

	r.header(h, "X-Ratelimit-Limit", atLimit, t.policy[t.burst[0]:t.burst[1]])
	r.header(h, "X-Ratelimit-Remaining", atRemaining, rate[from:to])
	r.header(h, "X-Ratelimit-Reset", atReset, rate[to+len(";t="):])
	r.header(h, "Ratelimit-Policy", atPolicy, t.policy)
	r.header(h, "Ratelimit", atRate, rate)
}
