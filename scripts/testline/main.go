// Testline runs `go test` with the given arguments and ends with one plain line
// that counts: "N passed, N failed". Packages are shown as go test shows them,
// tests only when they failed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...) //nolint:noctx,gosec // Ctrl-C reaches it too; its arguments are make's
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		fail(err)
	}
	if err := cmd.Start(); err != nil {
		fail(err)
	}
	c := count(out, os.Stdout)
	err = cmd.Wait()
	fmt.Println(c)
	if err != nil || c.failed > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "testline:", err)
	os.Exit(1)
}

// event is a line of `go test -json`; cmd/test2json describes it.
type event struct {
	Action, Package, ImportPath, Test, Output string
	FailedBuild                               string
}

// counts are of tests and subtests. A package that failed without a failed test
// (it did not build, or died outside of one) counts as one failure.
type counts struct{ passed, failed, skipped int }

func (c counts) String() string {
	line := fmt.Sprintf("%d passed, %d failed", c.passed, c.failed)
	if c.skipped > 0 {
		line += fmt.Sprintf(", %d skipped", c.skipped)
	}
	return line
}

// count reads events and writes what a person wants to see of them.
func count(in io.Reader, out io.Writer) (c counts) {
	said := map[string][]string{} // what each test has said, until we know whether it matters
	failures := map[string]int{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20) // a test may print a whole document in one line
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" {
			fmt.Fprintln(out, lines.Text()) // the go command's own words
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "output":
			if !strings.HasPrefix(e.Output, "=== ") {
				said[key] = append(said[key], e.Output)
			}
		case "pass", "skip", "fail":
			c.add(e, failures)
			if e.Test == "" && e.Action == "fail" {
				unended(out, said, e.Package)
			}
			tell(out, e, said[key])
			delete(said, key)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(out, "testline: reading go test:", err)
		c.failed++
	}
	return c
}

func (c *counts) add(e event, failures map[string]int) {
	switch {
	case e.Action == "fail" && e.Test == "" && failures[e.Package] == 0, e.Action == "fail" && e.Test != "":
		c.failed++
		failures[e.Package]++
	case e.Test == "":
	case e.Action == "pass":
		c.passed++
	case e.Action == "skip":
		c.skipped++
	}
}

// unended shows what tests of a package had said that died with it, most of all of
// one that stood still: where it stood is among it.
func unended(out io.Writer, said map[string][]string, pkg string) {
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if test, of := strings.CutPrefix(key, pkg+" "); of && test != "" {
			fmt.Fprint(out, strings.Join(said[key], ""))
			delete(said, key)
		}
	}
}

// tell shows a failed test whole, and of a package its closing line, or
// everything it said when it failed.
func tell(out io.Writer, e event, lines []string) {
	if e.Test == "" && e.Action != "fail" {
		lines = slices.DeleteFunc(lines, func(line string) bool {
			return !strings.HasPrefix(line, "ok ") && !strings.HasPrefix(line, "? ")
		})
	}
	if e.Action == "fail" || e.Test == "" {
		fmt.Fprint(out, strings.Join(lines, ""))
	}
}
