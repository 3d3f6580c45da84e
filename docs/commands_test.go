package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	target    = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	command   = regexp.MustCompile(`^#+ gpuaas(?: ([a-z -]+))?$`)
	longFlag  = regexp.MustCompile(`--([a-z][a-z-]*)`)
	shortFlag = regexp.MustCompile(`(?m)^\s+-([a-z]), --`)
	// A command starts its line or its code span, behind a prompt or an operator
	// of the shell: prose in a block is not parsed as one.
	operator = regexp.MustCompile(`&&|[;|]`)
	quoted   = regexp.MustCompile(`"[^"]*"`)
	ours     = regexp.MustCompile(`^(?:\$ )?((?:bin/)?gpuaas|make)((?: .*)?)$`)
)

// book has all commands, with the flags of each.
type book struct {
	targets []string
	flags   map[string][]string // "alloc create" → its flags, global ones too
}

func readBook(t *testing.T) book {
	t.Helper()
	b := book{flags: map[string][]string{}}
	for _, match := range target.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		b.targets = append(b.targets, match[1])
	}
	name := "?"
	for l := range strings.SplitSeq(read(t, "docs/reference/cli.md"), "\n") {
		if match := command.FindStringSubmatch(l); match != nil {
			name = match[1]
			b.flags[name] = append([]string{"help", "h"}, b.flags[""]...)
		}
		for _, re := range []*regexp.Regexp{longFlag, shortFlag} {
			for _, match := range re.FindAllStringSubmatch(l, -1) {
				b.flags[name] = append(b.flags[name], match[1])
			}
		}
	}
	if len(b.flags) < 20 || len(b.targets) < 8 {
		t.Fatalf("%d commands and %d targets found: this test reads nothing", len(b.flags), len(b.targets))
	}
	return b
}

// fault returns the fault of one line of code, or "".
func (b book) fault(code string) string {
	code, _, _ = strings.Cut(code, "  #")
	code = quoted.ReplaceAllString(code, "…") // one argument, with any content
	for _, part := range operator.Split(strings.TrimSuffix(code, " \\"), -1) {
		match := ours.FindStringSubmatch(strings.TrimSpace(part))
		if match == nil {
			continue
		}
		why := b.runs(strings.Fields(match[2]))
		if match[1] == "make" {
			why = b.makes(strings.Fields(match[2]))
		}
		if why != "" {
			return why
		}
	}
	return ""
}

func (b book) makes(words []string) string {
	for _, w := range words {
		if !strings.Contains(w, "=") && !slices.Contains(b.targets, w) {
			return "make has no target " + w
		}
	}
	return ""
}

func (b book) runs(words []string) string {
	name, named := "", true
	for _, w := range words {
		if before, _, _ := strings.Cut(w, "="); strings.HasPrefix(w, "-") {
			if !slices.Contains(b.flags[name], strings.TrimLeft(before, "-")) {
				return "gpuaas " + name + " has no flag " + before
			}
			continue
		}
		longer := strings.TrimSpace(name + " " + w)
		if _, ok := b.flags[longer]; ok && named {
			name = longer
			continue
		}
		// The text after a flag may be its value. Before any command it is a name
		// that gpuaas does not have.
		if name == "" && !strings.ContainsAny(strings.Join(words[:slices.Index(words, w)], ""), "-") {
			return "gpuaas has no command " + w
		}
		named = name == ""
	}
	return ""
}

// TestCommandsExist reads every command in code, and its flags.
func TestCommandsExist(t *testing.T) {
	t.Parallel()
	b := readBook(t)
	for _, p := range pages(t) {
		if p.path == "docs/reference/cli.md" {
			continue
		}
		for _, l := range p.code {
			if why := b.fault(l.text); why != "" {
				t.Errorf("%s:%d: %s: %s", p.path, l.number, strings.TrimSpace(l.text), why)
			}
		}
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	b := readBook(t)
	for code, want := range map[string]string{
		"make test && make chekc":                                 "make has no target chekc",
		"make bench BENCH_ONLY=A1":                                "",
		"$ gpuaas alloc create --sku t4 --wait":                   "",
		"$ gpuaas alloc create --sku t4 --now":                    "gpuaas alloc create has no flag --now",
		"bin/gpuaas start":                                        "gpuaas has no command start",
		"gpuaas --profile default-operator get plans":             "",
		`gpuaas admin balance adjust U "EUR -25" --reason "x; y"`: "",
		`gpuaas admin balance adjust U "EUR -25" --because "x"`:   "gpuaas admin balance adjust has no flag --because",
		"gpuaas get nodes -o json | head":                         "",
		"gpuaas alloc release first --wait --timeout=45s":         "",
		"the name gpuaas in prose is none, nor is make it":        "",
		"gpuaas up --reset --data-dir /tmp/x && make bench":       "",
	} {
		if got := b.fault(code); got != want {
			t.Errorf("%q: %q, want %q", code, got, want)
		}
	}
}
