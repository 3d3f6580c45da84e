//go:build race

package race

// Enabled reports whether the race detector is compiled in. Slower is the factor for time limits of tests.
const (
	Enabled = true
	Slower  = 10
)
