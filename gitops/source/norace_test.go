//go:build !race

package source

// race reports whether the race detector is on. It multiplies the memory, so limits are not checked
// with it.
const race = false
