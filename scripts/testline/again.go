package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// mostAgain limits the failed tests that run again. More failures are no coincidence,
// and their time is better spent on reading.
const mostAgain = 5

// retry runs each failed test once more by itself and prints the remaining failures. A test that failed only
// through its subtests passes if they do.
func (o options) retry(args []string, r results, out io.Writer) (c counts, good bool) {
	c = r.counts
	again := leaves(r.failures)
	switch {
	case r.died || len(again) == 0:
		return c, false
	case len(again) > mostAgain:
		fmt.Fprintf(out, "%d tests failed: none is run again\n", len(again))
		return c, false
	}
	var flaky []test
	for _, t := range again {
		fmt.Fprintf(out, "AGAIN %s\n", t)
		if o.passes(args, t, out) {
			fmt.Fprintf(out, "FLAKY %s\n", t)
			flaky = append(flaky, t)
		}
	}
	for _, t := range r.failures {
		of := slices.DeleteFunc(slices.Clone(again), func(leaf test) bool { return leaf != t && !leaf.below(t) })
		if !slices.ContainsFunc(of, func(leaf test) bool { return !slices.Contains(flaky, leaf) }) {
			c.failed--
			c.passed++
		}
	}
	return c, c.failed == 0
}

// passes runs one test. It passes when it ran and nothing else failed: a
// pattern that matches no test is no success.
func (o options) passes(args []string, t test, out io.Writer) bool {
	ran := false
	alone := append(slices.DeleteFunc(slices.Clone(args), isPackage), "-count=1", "-run="+pattern(t.name), t.pkg)
	watched := o
	watched.passed = func(done test) { ran = ran || done == t }
	_, err := watched.test(alone, out)
	return err == nil && ran
}

func isPackage(arg string) bool { return strings.HasPrefix(arg, "./") }

// pattern matches one test, and each test that it is a subtest of.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

func (t test) below(other test) bool {
	return t.pkg == other.pkg && strings.HasPrefix(t.name, other.name+"/")
}

// leaves are the tests of which no subtest failed as well.
func leaves(failures []test) []test {
	return slices.DeleteFunc(slices.Clone(failures), func(t test) bool {
		return slices.ContainsFunc(failures, func(other test) bool { return other.below(t) })
	})
}
