package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The input is real: go test over packages that pass, fail, die and do not build.
func TestCount(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		line          string
		shows, spares []string
	}{
		"passing": {"3 passed, 0 failed, 1 skipped", []string{"ok "}, []string{"quiet words", "--- PASS"}},
		"failing": {"1 passed, 2 failed", []string{"--- FAIL: TestBad", "loud words", "FAIL"}, []string{"quiet words"}},
		"dying":   {"1 passed, 1 failed", []string{"panic: out of nothing"}, nil},
		"broken":  {"0 passed, 1 failed", []string{"undefined: nothing"}, nil},
		"stuck":   {"0 passed, 1 failed", []string{"SIGQUIT", "stuck.TestStuck"}, nil},
		"exiting": {"0 passed, 1 failed", []string{"FAIL"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-vet=off", "./"+name)
			cmd.Dir = filepath.Join("testdata", "samples")
			events, _ := cmd.Output() // most of the samples fail
			var out strings.Builder
			if got := (options{}).count(strings.NewReader(string(events)), &out).String(); got != want.line {
				t.Errorf("got %q, want %q, from:\n%s", got, want.line, events)
			}
			for _, text := range want.shows {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is not printed:\n%s", text, out.String())
				}
			}
			for _, text := range want.spares {
				if strings.Contains(out.String(), text) {
					t.Errorf("%q is printed:\n%s", text, out.String())
				}
			}
		})
	}
}

// A test that fails is run once more by itself; what fails twice has failed.
func TestAgain(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		pkgs          []string
		line          string
		good          bool
		shows, spares []string
	}{
		"a flaky subtest": {[]string{"./flaky"}, "5 passed, 0 failed", true, []string{"FLAKY flaky TestParent/odd_one", "PASS ", "flaky TestGood"}, []string{"AGAIN flaky TestParent\n"}},
		"twice red":       {[]string{"./failing"}, "1 passed, 2 failed", false, []string{"AGAIN failing TestBad/sub"}, []string{"FLAKY"}},
		"both":            {[]string{"./flaky", "./failing"}, "6 passed, 2 failed", false, []string{"FLAKY flaky TestParent/odd_one"}, []string{"FLAKY failing"}},
		"does not build":  {[]string{"./broken", "./flaky"}, "3 passed, 3 failed", false, nil, []string{"AGAIN"}},
		"a panic":         {[]string{"./dying"}, "1 passed, 1 failed", false, nil, []string{"AGAIN"}},
		"too many":        {[]string{"./many"}, "0 passed, 6 failed", false, []string{"6 tests failed: none is run again"}, []string{"AGAIN"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "samples")
			if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "samples"))); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			c, good := options{ends: true, again: true, dir: dir}.run(append([]string{"-vet=off", "-count=1"}, want.pkgs...), &out)
			if c.String() != want.line || good != want.good {
				t.Errorf("got %q, good: %v; want %q", c, good, want.line)
			}
			for _, text := range want.shows {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is not printed:\n%s", text, out.String())
				}
			}
			for _, text := range want.spares {
				if strings.Contains(out.String(), text) {
					t.Errorf("%q is printed:\n%s", text, out.String())
				}
			}
		})
	}
}

// Tests that run when SIGTERM arrives are not failures; one that failed before is.
func TestEndedBySIGTERM(t *testing.T) {
	t.Parallel()
	for pkg, want := range map[string]string{"./slow": "1 passed, 0 failed\n", "./failing": "2 passed, 2 failed\n"} {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			bin := filepath.Join(t.TempDir(), "testline")
			if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			total := filepath.Join(t.TempDir(), "total")
			cmd := exec.CommandContext(t.Context(), bin, "-ends", "-vet=off", "-count=1", "-v", pkg, "--", "-vet=off", "-count=1", "./slow")
			cmd.Dir, cmd.Env = filepath.Join("testdata", "samples"), append(os.Environ(), "TESTLINE_TOTAL="+total)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				if strings.Contains(lines.Text(), "slow TestFast") {
					_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
				}
			}
			if err := cmd.Wait(); err == nil {
				t.Error("it ended as a success")
			}
			if got, _ := os.ReadFile(total); string(got) != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	o, runs := parse([]string{"-ends", "-again", "-run", "X", "./a", "--", "-ends", "./b"})
	if !o.ends || !o.again || len(runs) != 2 || strings.Join(runs[0], " ") != "-run X ./a" || strings.Join(runs[1], " ") != "-ends ./b" {
		t.Errorf("%+v, %q", o, runs)
	}
	if o, runs = parse([]string{"-tags", "x", "./..."}); o.ends || o.again || len(runs) != 1 || len(runs[0]) != 3 {
		t.Errorf("%+v, %q", o, runs)
	}
}
