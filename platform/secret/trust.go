package secret

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/internal/pki"
)

// Stamp returns a text that changes whenever the trust state of nodes should: a root or a key of
// a set was added or removed. Every server computes the same text from the same input.
func Stamp(bundle []byte, sets ...map[string][]byte) string {
	parts := slices.Sorted(slices.Values(pki.BundleFingerprints(bundle)))
	for _, keys := range sets {
		for _, kid := range slices.Sorted(maps.Keys(keys)) {
			parts = append(parts, kid, hex.EncodeToString(keys[kid]))
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:8])
}

// Sequence returns a number that increases whenever a key is added or removed, on every server: kids end
// with an increasing number, and the oldest key is removed first.
func Sequence(keys map[string][]byte) int64 {
	var lowest, highest int64
	for kid := range keys {
		n := number(kid)
		if lowest == 0 || n < lowest {
			lowest = n
		}
		highest = max(highest, n)
	}
	return lowest + highest
}

// number returns the number at the end of a kid.
func number(kid string) (n int64) {
	for _, r := range kid[strings.LastIndexFunc(kid, func(r rune) bool { return r < '0' || r > '9' })+1:] {
		n = n*10 + int64(r-'0')
	}
	return n
}
