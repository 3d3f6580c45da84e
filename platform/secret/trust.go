package secret

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/internal/pki"
)

// Stamp is another text whenever what nodes should believe is another: a root or
// a task key came or went. Every server makes the same of the same.
func Stamp(bundle []byte, keys map[string][]byte) string {
	parts := slices.Sorted(slices.Values(pki.BundleFingerprints(bundle)))
	for _, kid := range slices.Sorted(maps.Keys(keys)) {
		parts = append(parts, kid, hex.EncodeToString(keys[kid]))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:8])
}

// Sequence rises whenever a key comes or goes, whichever server says it: kids end
// with a number that only rises, and keys go oldest first.
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

// number is what a kid ends with.
func number(kid string) (n int64) {
	for _, r := range kid[strings.LastIndexFunc(kid, func(r rune) bool { return r < '0' || r > '9' })+1:] {
		n = n*10 + int64(r-'0')
	}
	return n
}
