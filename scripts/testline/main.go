// Testline runs `go test` with the given arguments and ends with one plain line
// with counts: "N passed, N failed". Packages are printed as go test prints them, tests only if they failed.
//
//	testline [-ends] [-again] ARGUMENTS [-- ARGUMENTS]...
//
// Each list of arguments is a run of go test of its own; a failed one does not stop
// the next one. With -ends every test is also named when it ends, with how
// long it took. With -again a test that fails is run once more by itself; if it
// passes then, it counts as passed and FLAKY names it.
//
// TESTLINE_TOTAL names a file to which the closing line is appended, so that a
// script that runs several can add them up.
//
// SIGTERM ends it with the counts of the tests that have ended. Those that run then do
// not count as failures.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	o, runs := parse(os.Args[1:])
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	o.ended = func() bool { return ctx.Err() != nil }
	var total counts
	good := true
	for _, args := range runs {
		c, ok := o.run(args, os.Stdout)
		total = total.plus(c)
		good = good && ok
		if o.ended() {
			fmt.Println("ended by SIGTERM: tests that have not ended do not count")
			good = false
			break
		}
	}
	fmt.Println(total)
	if file := os.Getenv("TESTLINE_TOTAL"); file != "" {
		if err := appendTo(file, total); err != nil {
			fail(err)
		}
	}
	if !good || total.failed > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "testline:", err)
	os.Exit(1)
}

func appendTo(file string, c counts) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // named by whoever starts this
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, c)
	return errors.Join(err, f.Close())
}

// options are those of this program. They precede those of go test.
type options struct {
	ends, again bool
	dir         string      // where go test runs; empty: here
	passed      func(test)  // called for every test that passed; may be nil
	ended       func() bool // SIGTERM was received; may be nil
}

// parse splits the arguments: the options of testline, and those of each run of go test.
func parse(args []string) (o options, runs [][]string) {
	for ; len(args) > 0; args = args[1:] {
		switch args[0] {
		case "-ends":
			o.ends = true
			continue
		case "-again":
			o.again = true
			continue
		}
		break
	}
	for {
		i := slices.Index(args, "--")
		if i < 0 {
			return o, append(runs, args)
		}
		runs, args = append(runs, args[:i]), args[i+1:]
	}
}

// run is one run of go test. It is good when nothing failed, or what failed passed
// when it was run again.
func (o options) run(args []string, out io.Writer) (c counts, good bool) {
	r, err := o.test(args, out)
	c, good = r.counts, err == nil
	if o.again && !good && (o.ended == nil || !o.ended()) {
		c, good = o.retry(args, r, out)
	}
	return c, good && c.failed == 0
}

// test runs go test and prints its result. The error means that it failed, or did not run.
func (o options) test(args []string, out io.Writer) (r results, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...) //nolint:noctx,gosec // Ctrl-C reaches it too; its arguments are make's
	cmd.Stderr, cmd.Dir = os.Stderr, o.dir
	events, err := cmd.StdoutPipe()
	if err != nil {
		return results{}, err
	}
	if err := cmd.Start(); err != nil {
		return results{}, err
	}
	r = o.count(events, out)
	return r, cmd.Wait()
}

// event is a line of `go test -json`; cmd/test2json describes it.
type event struct {
	Action, Package, ImportPath, Test, Output string
	FailedBuild                               string
	Elapsed                                   float64
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

func (c counts) plus(d counts) counts {
	return counts{c.passed + d.passed, c.failed + d.failed, c.skipped + d.skipped}
}

// results are the counts, and the tests behind them.
type results struct {
	counts

	failures []test
	// died: a package did not build, or ended too early. Which of its tests have not
	// run is not known, so a second run of those that failed proves nothing.
	died bool
}

// test is one test or subtest of a package.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg[strings.LastIndex(t.pkg, "/")+1:] + " " + t.name }

// count reads events and writes what a person wants to see of them.
func (o options) count(in io.Reader, out io.Writer) (c results) {
	said := map[string][]string{} // the output of each test, until its result is known
	failures := map[string]int{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20) // a test may print a whole document in one line
	for lines.Scan() && (o.ended == nil || !o.ended()) {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" {
			fmt.Fprintln(out, lines.Text()) // the go command's own output
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
				// The last line of package testing: all tests have ended.
				c.died = c.died || !slices.Contains(said[key], "FAIL\n")
			}
			show(out, e, said[key])
			delete(said, key)
			if o.ends {
				end(out, e)
			}
			if o.passed != nil && e.Action == "pass" {
				o.passed(test{e.Package, e.Test})
			}
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(out, "testline: reading go test:", err)
		c.failed++
		c.died = true
	}
	return c
}

func (c *results) add(e event, failures map[string]int) {
	switch {
	case e.Action == "fail" && e.Test == "" && failures[e.Package] == 0:
		c.failed++
		failures[e.Package]++
		c.died = true
	case e.Action == "fail" && e.Test != "":
		c.failed++
		failures[e.Package]++
		c.failures = append(c.failures, test{e.Package, e.Test})
	case e.Test == "":
	case e.Action == "pass":
		c.passed++
	case e.Action == "skip":
		c.skipped++
	}
}

// unended prints the output of the tests of a package that ended with it. If a test was blocked, its
// output contains the place.
func unended(out io.Writer, said map[string][]string, pkg string) {
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if test, of := strings.CutPrefix(key, pkg+" "); of && test != "" {
			fmt.Fprint(out, strings.Join(said[key], ""))
			delete(said, key)
		}
	}
}

// Only slow subtests are named: there are thousands.
const worthNaming = 1.0

// end names a test that has ended, with its duration.
func end(out io.Writer, e event) {
	if e.Test == "" || strings.Contains(e.Test, "/") && e.Elapsed < worthNaming && e.Action != "fail" {
		return
	}
	fmt.Fprintf(out, "%s %7.1f s  %s\n", strings.ToUpper(e.Action), e.Elapsed, test{e.Package, e.Test})
}

// show prints the output of a failed test, and the closing line of a package, or all its output if it failed.
func show(out io.Writer, e event, lines []string) {
	if e.Test == "" && e.Action != "fail" {
		lines = slices.DeleteFunc(lines, func(line string) bool {
			return !strings.HasPrefix(line, "ok ") && !strings.HasPrefix(line, "? ")
		})
	}
	if e.Action == "fail" || e.Test == "" {
		fmt.Fprint(out, strings.Join(lines, ""))
	}
}
