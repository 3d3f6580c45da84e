package ratelimit

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestLimitStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"rate_limits"}, map[string]string{
		"takeLimit":        takeLimit,
		"shareLimits":      shareLimits,
		"deleteFullLimits": deleteFullLimits,
	})
}
