package nodeapi

import (
	"maps"
	"slices"
)

// Patterns lists the routes, for tests that call all of them.
func Patterns() []string { return slices.Sorted(maps.Keys((&Server{}).routes())) }
