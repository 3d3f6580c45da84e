// Package race reports whether the race detector is compiled in. It multiplies memory, time and allocations, so tests do not
// check limits of these with it.
package race
