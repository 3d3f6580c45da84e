package middleware

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/platform/identity"
)

func limiterAt(now *time.Time) *limiter {
	return &limiter{
		clock:  clock.At(func() time.Time { return *now }),
		limits: func(request.Class, identity.Caller) Limit { return Limit{PerMinute: 5, Burst: 5} },
	}
}

// Half a million addresses, none of which waits, do not fill the memory of a server, and none gets more
// attempts because the map is full.
func TestHostileAddressesStayBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := limiterAt(&now)
	key := bucketKey{class: request.ClassSignIn}
	started := time.Now()
	for i := range uint64(500_000) {
		binary.BigEndian.PutUint64(key.id[:], i)
		l.admit(key, identity.Caller{})
		if i%1000 == 0 {
			now = now.Add(time.Millisecond)
		}
	}
	if len(l.all) > maxBuckets+overflowBuckets {
		t.Errorf("%d buckets", len(l.all))
	}
	if d := time.Since(started); d > 20*time.Second {
		t.Errorf("half a million requests needed %s", d)
	}
	allowed := 0
	for range 20 {
		if l.admit(key, identity.Caller{}).wait == 0 {
			allowed++
		}
	}
	if allowed > 5 {
		t.Errorf("%d attempts at once are allowed in a full map", allowed)
	}
}

// Names of accounts, however many and however long, have a fixed number of buckets. One account has the same
// bucket in all writings, and another secret has other buckets.
func TestHostileNamesStayBounded(t *testing.T) {
	t.Parallel()
	a, b := Accounts{envelope.NewRandomRing()}, Accounts{envelope.NewRandomRing()}
	if a.bucket(" Dev@Dev.localhost", "") != a.bucket("dev@dev.localhost", "") {
		t.Error("a writing of the name has a bucket of its own")
	}
	if a.bucket("dev@dev.localhost", "") == b.bucket("dev@dev.localhost", "") || a.bucket("dev@dev.localhost", "") == a.bucket("dev@dev.localhost", "192.0.2.1") {
		t.Error("the bucket depends on neither the secret nor the address")
	}
	seen := map[[16]byte]bool{}
	for i := range 300_000 {
		seen[a.bucket(fmt.Sprintf("name-%d@example.org", i), "")] = true
	}
	if len(seen) > 1<<16 {
		t.Errorf("%d buckets", len(seen))
	}
}
