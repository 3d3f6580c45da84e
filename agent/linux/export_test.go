package linux

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// ErrPlanted is how a planted failure ends.
var ErrPlanted = errors.New("planted")

// Break makes the nth command that changes something fail, and counts them all.
func (h *Host) Break(n int) (count *int) {
	count = new(int)
	h.Run = func(ctx context.Context, path string, stdin []byte, args ...string) ([]byte, error) {
		if !asks(path, args) {
			if *count++; *count == n {
				return nil, ErrPlanted
			}
		}
		return hostos.Child(ctx, path, stdin, args...)
	}
	return count
}

// asks says whether a command only looks.
func asks(path string, args []string) bool {
	return strings.HasSuffix(path, "nvidia-smi") || slices.Contains(args, "show") || slices.Contains(args, "list") || slices.Contains(args, "-T")
}

// The parts that are tested without a host.
var (
	Revocations = revocations
	Revoked     = revoked
	Table       = table
	ParseSlice  = parseSlice
	ParseCards  = parseCards
	SSHDConf    = sshdConf
)
