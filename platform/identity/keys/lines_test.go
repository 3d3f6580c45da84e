package keys_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
)

// Lines that became too many for the cache replace the earlier ones, which would fail their verification each time.
func TestLinesThatAreTooManyReplaceTheCachedOnes(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	now := time.Now()
	dev := identity.Caller{User: b.Seed.Dev.ID, SignIn: identity.SignIn{At: now}}
	var lines keys.Lines
	const many = 30 // of 80 bytes
	for n := range many {
		public, _ := ed(t)
		if _, err := b.Keys.AddSSHKey(t.Context(), identity.Change[keys.SSHKey]{Caller: dev}, fmt.Sprint("key-", n), public); err != nil {
			t.Fatal(err)
		}
		if n > 0 && n < many-1 {
			continue
		}
		for _, fresh := range []bool{true, false} {
			if got, err := lines.Read(t.Context(), b.Pool, dev, nil, now, fresh); err != nil || len(got) != n+1 {
				t.Errorf("with fresh %t: %d lines of %d, %v", fresh, len(got), n+1, err)
			}
		}
	}
}
