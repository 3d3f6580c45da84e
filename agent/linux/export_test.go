package linux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/krl"
)

// ErrPlanted is the error of a planted failure.
var ErrPlanted = errors.New("planted")

// Break makes the nth command that changes something fail, and counts them all.
func (h *Host) Break(n int) (count *int) {
	count = new(int)
	h.Run = func(ctx context.Context, path string, stdin []byte, args ...string) ([]byte, error) {
		if !onlyReads(path, args) {
			if *count++; *count == n {
				return nil, ErrPlanted
			}
		}
		return hostos.Child(ctx, path, stdin, args...)
	}
	return count
}

// onlyReads returns whether a command only reads.
func onlyReads(path string, args []string) bool {
	return strings.HasSuffix(path, "nvidia-smi") || slices.Contains(args, "show") || slices.Contains(args, "list") || slices.Contains(args, "-T") || slices.Contains(args, "version")
}

// The parts that are tested without a node.
var (
	KeyLines       = keyLines
	ParseEffective = parseEffective
	Revocations    = krl.Format
	Revoked        = krl.Parse
	ParseSlice     = parseSlice
	ParseCards     = parseCards
	SSHDConf       = sshdConf
)

// InspectLogin returns the keys and the principals of an account.
func (h *Host) InspectLogin(name string) (keys, principals []string, err error) {
	return h.inspectLogin(name)
}

// NamespaceConf returns the private folders of sessions.
func (h *Host) NamespaceConf() string { return h.namespaceConf() }

// Clean returns the scrubbed GPUs.
func (h *Host) Clean() (map[string]bool, error) { return h.clean() }

// SliceOpens parses what systemd prints of a slice.
func SliceOpens(block, file string) (closed, opens bool) {
	l, _ := parseSlice(block)
	return l.policy == "closed" || l.policy == "strict", l.opens(file)
}

// Cards prints cards without their processes.
func Cards(cards []card) string {
	var b strings.Builder
	for _, c := range cards {
		c.Processes = 0
		fmt.Fprintf(&b, "%+v %d %q\n", c.GPU, c.minor, c.off)
	}
	return b.String()
}
