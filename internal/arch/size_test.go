package arch

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	packageLimit = 2500 // lines of a package
	folderLimit  = 25   // code files of a folder
)

// oversized lists the packages that exceed the limit, with their size. A size here may only fall. A
// package leaves the list when it is split.
var oversized = map[string]int{}

// lowered lists packages with a lower limit. The double of Stripe exists for development and tests, so
// it grows only when platform/payment/stripe calls a further method.
var lowered = map[string]int{"dev/stripe": 1480}

// crowded lists the folders that have more code files than the limit, with their number.
var crowded = map[string]int{}

// TestPackagesAreSmall checks hand-written code without tests, because a reader of a package reads
// all of it. It prints the ten biggest packages.
func TestPackagesAreSmall(t *testing.T) {
	t.Parallel()
	lines, files := map[string]int{}, map[string]int{}
	walk(t, func(name string) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".gen.go") || strings.Contains(name, "/testdata/") {
			return
		}
		pkg := path.Dir(name)
		lines[pkg] += strings.Count(read(t, name), "\n")
		files[pkg]++
	})
	check(t, "lines", lines, packageLimit, oversized)
	check(t, "code files", files, folderLimit, crowded)
	biggest := slices.SortedFunc(maps.Keys(lines), func(a, b string) int { return cmp.Compare(lines[b], lines[a]) })
	for _, pkg := range biggest[:10] {
		t.Logf("%6d lines, %3d files: %s", lines[pkg], files[pkg], pkg)
	}
}

func check(t *testing.T, what string, sizes map[string]int, limit int, known map[string]int) {
	t.Helper()
	for pkg, n := range sizes {
		allowed := max(limit, known[pkg])
		if lower, ok := lowered[pkg]; ok {
			allowed = min(allowed, lower)
		}
		if n > allowed {
			t.Errorf("%s has %d %s, and at most %d are allowed: cut it at its second noun", pkg, n, what, allowed)
		}
	}
	for pkg, n := range known {
		if sizes[pkg] <= limit {
			t.Errorf("%s has %d %s: remove it from the list in size_test.go", pkg, sizes[pkg], what)
		}
		if sizes[pkg] < n*9/10 {
			t.Errorf("%s has %d %s: lower its number in size_test.go from %d", pkg, sizes[pkg], what, n)
		}
	}
}
