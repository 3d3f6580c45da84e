package nodeapi

import (
	"maps"
	"slices"
)

// Patterns lists what the door answers, for tests that ask all of it.
func Patterns() []string { return slices.Sorted(maps.Keys((&Server{}).routes())) }
