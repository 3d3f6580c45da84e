//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestPages runs the steps of the tutorials and how-to guides, in a separate installation for each page,
// and compares the output with the page.
//
// A block that is fenced as console is run: a line after "$ " is a command for bash, in one session for
// the page; the lines below are the expected output, in this sequence among other lines, with any white
// space, and with anything for "…". A block after <!-- file: PATH --> is that file. A comment that begins
// with <!-- run is run, too, but readers of the page do not see it.
func TestPages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*/*.md")
	must(t, err)
	ran := 0
	for _, path := range pages {
		text, err := os.ReadFile(path)
		must(t, err)
		steps := stepsOf(string(text))
		if len(steps) == 0 {
			continue
		}
		ran++
		t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
			t.Parallel()
			h := newInstallation(t)
			h.start()
			runSteps(t, h, steps)
		})
	}
	if ran < 5 {
		t.Errorf("only %d pages have something to run", ran)
	}
}

// pageStep is a command and what it prints, or a file.
type pageStep struct {
	line    int
	command string
	shown   []string
	file    string
	body    string
}

var (
	fence   = regexp.MustCompile("^```([a-z]*)$")
	comment = regexp.MustCompile(`^<!-- (file|run):? ?(.*?)(?: ?-->)?$`)
)

// stepsOf reads a page.
func stepsOf(text string) (steps []pageStep) {
	lines := strings.Split(text, "\n")
	file := ""
	for i := 0; i < len(lines); i++ {
		if match := comment.FindStringSubmatch(lines[i]); match != nil {
			if match[1] == "file" {
				file = match[2]
				continue
			}
			begin := i
			for i < len(lines) && !strings.HasSuffix(lines[i], "-->") {
				i++
			}
			steps = append(steps, session(lines[begin+1:i], begin+2)...)
			continue
		}
		match := fence.FindStringSubmatch(lines[i])
		if match == nil {
			continue
		}
		begin := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		switch {
		case file != "":
			steps = append(steps, pageStep{line: begin + 1, file: file, body: strings.Join(lines[begin:i], "\n") + "\n"})
			file = ""
		case match[1] == "console":
			steps = append(steps, session(lines[begin:i], begin+1)...)
		}
	}
	return steps
}

// session splits a block into steps. A backslash at the end of a line continues the command.
func session(lines []string, from int) (steps []pageStep) {
	for i := 0; i < len(lines); i++ {
		if command, ok := strings.CutPrefix(lines[i], "$ "); ok {
			s := pageStep{line: from + i, command: command}
			for strings.HasSuffix(s.command, `\`) && i+1 < len(lines) {
				i++
				s.command += "\n" + lines[i]
			}
			steps = append(steps, s)
		} else if len(steps) > 0 {
			steps[len(steps)-1].shown = append(steps[len(steps)-1].shown, lines[i])
		}
	}
	return steps
}

// runSteps runs the steps of a page.
func runSteps(t *testing.T, h *installation, steps []pageStep) {
	t.Helper()
	must(t, os.WriteFile(h.path("cwd"), []byte(h.repo), 0o600))
	for _, s := range steps {
		if s.file != "" {
			cwd, err := os.ReadFile(h.path("cwd"))
			must(t, err)
			path := filepath.Join(strings.TrimSpace(string(cwd)), s.file)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, []byte(s.body), 0o644))
			continue
		}
		if why := h.does(t, s); why != "" {
			t.Fatalf("line %d: %s\n%s", s.line, s.command, why)
		}
	}
}

// Some output needs time: a command that only reads is repeated until it prints what the page displays,
// as a user would repeat it.
const pagePatience = 30 * time.Second

var readOnly = regexp.MustCompile(`^gpuaas( --profile \S+)? (get|describe|drift|trace|diff|plan|alloc (get|list)|whoami|doctor)\b`)

// does runs one step and returns its fault, or "".
func (h *installation) does(t *testing.T, s pageStep) (why string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(commandPause) {
		out, code := h.shell(t, s.command)
		if why = differs(s.shown, out, code); why == "" || !readOnly.MatchString(s.command) || time.Since(began) > pagePatience {
			return why
		}
	}
}

// shell runs a command where the last one left off.
func (h *installation) shell(t *testing.T, command string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// The session's own output ends with a line of their own, so that a command may be any text.
	script := fmt.Sprintf("set -a; [ -f %[1]s ] && . %[1]s; cd \"$(cat %[2]s)\" || exit 99\n%[3]s\nrc=$?\nexport -p > %[1]s; pwd > %[2]s; exit $rc\n", h.path("env"), h.path("cwd"), command)
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Env = h.own("PATH="+bins+":"+os.Getenv("PATH"), "HOME="+h.dir, "CI=",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_PAGER=cat")
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return text.String(), cmd.ProcessState.ExitCode()
}

// differs compares what a command has printed with what a page shows of it. A page
// that shows an error expects one.
func differs(shown []string, out string, code int) string {
	failed := false
	rest := strings.Split(out, "\n")
	for _, want := range shown {
		failed = failed || strings.HasPrefix(want, "Error: ")
		if strings.TrimSpace(strings.ReplaceAll(want, "…", "")) == "" {
			continue
		}
		like := pattern(want)
		for {
			if len(rest) == 0 {
				return fmt.Sprintf("does not print\n  %s\nbut (exit %d)\n%s", want, code, out)
			}
			line := rest[0]
			rest = rest[1:]
			if like.MatchString(line) {
				break
			}
		}
	}
	if failed != (code != 0) {
		return fmt.Sprintf("ends with %d:\n%s", code, out)
	}
	return ""
}

// pattern is a line as a page shows it, with any white space.
func pattern(shown string) *regexp.Regexp {
	like, space := `^`, `\s*`
	for i, word := range strings.Fields(shown) {
		switch {
		case word == "…" && i == 0: // alone, it is nothing as well
			like += `(?:.*\s)?`
		case word == "…":
			like += `(?:\s.*)?`
		default:
			like += space + strings.ReplaceAll(regexp.QuoteMeta(word), "…", ".*")
			space = `\s+`
		}
	}
	return regexp.MustCompile(like + `\s*$`)
}

func TestPagesAreRead(t *testing.T) {
	t.Parallel()
	const page = "# Title\n\n```\n$ not run\n```\n\n<!-- run\n$ hidden\n-->\n\n<!-- file: a/b.yaml -->\n```yaml\nkind: X\n```\n\n```console\n$ one \\\n  two\nError: no\n$ three\nfour … six\n```\n"
	steps := stepsOf(page)
	if len(steps) != 4 || steps[0].command != "hidden" || steps[0].line != 8 || steps[1].file != "a/b.yaml" || steps[1].body != "kind: X\n" ||
		steps[2].command != "one \\\n  two" || len(steps[2].shown) != 1 || steps[3].line != 20 {
		t.Errorf("%+v", steps)
	}
	for name, c := range map[string]struct {
		shown, out string
		code       int
		good       bool
	}{
		"exact":               {"a b", "a   b\n", 0, true},
		"among others":        {"a\nc", "x\na\nb\nc\n", 0, true},
		"wrong sequence":      {"c\na", "a\nb\nc\n", 0, false},
		"not printed":         {"a", "b\n", 0, false},
		"anything":            {"a … d\n…", "a b c d\n", 0, true},
		"nothing, too":        {"… a … d …", "a d\n", 0, true},
		"the first part":      {"… b", "x a b\n", 0, true},
		"a gap inside a name": {"a … d", "a bd\n", 0, false},
		"a gap inside an id":  {"id 01…-x", "id 0199-x\n", 0, true},
		"failed":              {"a", "a\n", 1, false},
		"an error":            {"Error: a", "Error: a\n", 5, true},
		"an error that isn't": {"Error: a", "Error: a\n", 0, false},
		"no more than it":     {"a", "a b\n", 0, false},
	} {
		if why := differs(strings.Split(c.shown, "\n"), c.out, c.code); (why == "") != c.good {
			t.Errorf("%s: %q", name, why)
		}
	}
}
