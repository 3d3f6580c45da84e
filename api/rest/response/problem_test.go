package response

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// The switch has no default; this finds the code that fell through it.
func TestEveryCodeHasAStatus(t *testing.T) {
	t.Parallel()

	for _, code := range errs.All() {
		if n := StatusOf(code); n == 500 && code != errs.Internal && code != errs.DecryptionFailed {
			t.Errorf("%s has no status of its own", code)
		}
	}
}
