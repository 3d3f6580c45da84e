//go:build failpoint

package reseal_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/failpoint/killtest"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/reseal"
)

// TestMain runs this binary as a server that seals stored secrets again, if it was started as one: only a process
// of its own can be killed.
func TestMain(m *testing.M) { killtest.Main(m, "RESEAL_TEST_DB", resealOnce) }

// opener opens without a test.
type opener struct{ *envelope.Ring }

func (o opener) Open(_ context.Context, sealed []byte, at envelope.Place) ([]byte, error) {
	return o.Ring.Open(sealed, at)
}

func resealOnce(ctx context.Context, url string) error {
	db, err := pg.Open(ctx, url, "test", 2)
	if err != nil {
		return err
	}
	defer db.Close()
	keys := map[string][]byte{}
	for _, id := range []string{"old", "new"} {
		keys[id] = append(make([]byte, 31), id[0])
	}
	ring, err := envelope.NewRing(keys, "new")
	if err != nil {
		return err
	}
	_, err = (reseal.Service{Service: &identity.Service{DB: db, Seal: opener{ring}}}).Reseal(ctx, "new", 2)
	return err
}

// A process that seals stored secrets again is killed at each point. No secret is lost, and the next process seals the
// rest.
func TestSealingAgainIsKilled(t *testing.T) {
	t.Parallel()
	n := 0
	for _, point := range failpoint.Points {
		if !strings.HasPrefix(point, "identity.reseal.") {
			continue
		}
		n++
		for hit := 1; hit <= 3; hit++ {
			t.Run(fmt.Sprintf("%s:%d", point, hit), func(t *testing.T) {
				t.Parallel()
				killedReseal(t, fmt.Sprintf("%s:%d", point, hit))
			})
		}
	}
	if n != 2 {
		t.Errorf("%d points", n)
	}
}

func killedReseal(t *testing.T, point string) {
	t.Helper()
	b := identitytest.New(t)
	f := newFields(t, "old")
	s := &identity.Service{DB: pgtest.Scoped(t, b.Pool), Seal: f}
	_, replies := secrets(t, b, s, 5)
	child := killtest.New(t, point, "RESEAL_TEST_DB="+b.Pool.Config().ConnString())
	run := func() (dead bool) {
		_, dead = child.Run(t.Context(), t)
		return dead
	}
	if !run() {
		t.Fatal("it was not killed")
	}
	if left, err := reseal.SealedBefore(t.Context(), b.Pool, "new"); err != nil || left == 0 || left > 10 {
		t.Errorf("%d are left after the kill, %v", left, err)
	}
	if run() {
		t.Fatal("it was killed twice")
	}
	if left, err := reseal.SealedBefore(t.Context(), b.Pool, "new"); err != nil || left != 0 {
		t.Errorf("%d are left, %v", left, err)
	}
	f.use("new", "new")
	for _, k := range replies {
		if r, _, err := s.Replay(pg.WithScope(t.Context(), pg.Platform), k); err != nil || string(r.Body) != "a secret" {
			t.Errorf("%q, %v", r.Body, err)
		}
	}
}
