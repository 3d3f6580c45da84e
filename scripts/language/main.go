// Command language checks the words of the project against docs/glossary.md. It reads every tracked
// file, applies the lists of rules.yaml and compares the number of findings per rule and folder with
// budget.yaml. A number above its budget fails. A number below its budget fails, too, until the
// budget is lowered with -write, so that a budget can never rise again.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

func main() {
	write := flag.Bool("write", false, "lower budget.yaml to the present numbers")
	list := flag.String("list", "", "print every finding of this rule")
	under := flag.String("in", "", "with -list: only findings below this folder")
	flag.Parse()
	err := run(os.Stdout, *write, *list, *under)
	if err != nil {
		fmt.Fprintln(os.Stderr, "language:", err)
		os.Exit(1)
	}
}

var errLanguage = errors.New("the words of the project do not follow docs/glossary.md")

func run(out io.Writer, write bool, list, under string) error {
	r, err := readRules("scripts/language/rules.yaml")
	if err != nil {
		return err
	}
	files, err := tracked(r.Skip)
	if err != nil {
		return err
	}
	findings, err := r.check(files)
	if err != nil {
		return err
	}
	if list != "" {
		for _, f := range findings {
			if f.Rule == list && strings.HasPrefix(f.Path, under) {
				fmt.Fprintln(out, f)
			}
		}
		return nil
	}
	const file = "scripts/language/budget.yaml"
	budget, err := readBudget(file)
	if err != nil {
		return err
	}
	now := count(findings)
	now.print(out)
	if write {
		if over := now.over(budget); len(over) > 0 {
			return fmt.Errorf("%w: a budget never rises: %s", errLanguage, strings.Join(over, ", "))
		}
		return now.save(file)
	}
	return compare(out, now, budget, findings)
}

// tracked lists the files of the work tree that Git does not ignore, without the skipped paths. New
// files count before they are committed.
func tracked(skip []string) ([]string, error) {
	text, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output() //nolint:noctx // the command ends by itself
	if err != nil {
		return nil, fmt.Errorf("listing the files: %w", err)
	}
	var files []string
	for file := range strings.SplitSeq(string(text), "\x00") {
		if file == "" || skipped(file, skip) {
			continue
		}
		// A file that is deleted but still in the index is not read.
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// skipped reports whether a path is in the list, or lies below a folder of the list. An entry without
// a slash names a folder at any depth.
func skipped(file string, skip []string) bool {
	for _, s := range skip {
		switch {
		case file == s, strings.HasPrefix(file, s+"/"):
			return true
		case !strings.Contains(s, "/") && slices.Contains(strings.Split(path.Dir(file), "/"), s):
			return true
		}
	}
	return false
}

// compare reports each budget that is exceeded, with the first findings of its folder.
func compare(out io.Writer, now, budget counts, findings []finding) error {
	failed := false
	for _, rule := range ruleNames {
		for _, folder := range folders(now[rule], budget[rule]) {
			have, may := now[rule][folder], budget[rule][folder]
			switch {
			case have > may:
				failed = true
				fmt.Fprintf(out, "%s in %s: %d findings, the budget is %d. Some of them:\n", rule, folder, have, may)
				examples(out, rule, folder, findings)
			case have < may:
				failed = true
				fmt.Fprintf(out, "%s in %s: %d findings, the budget is %d: lower it with scripts/ci/language_guard.sh -write\n", rule, folder, have, may)
			}
		}
	}
	if failed {
		return errLanguage
	}
	return nil
}

// examples prints the last findings of a folder. All of them are printed with -list.
func examples(out io.Writer, rule, folder string, findings []finding) {
	const few = 10
	left := few
	for _, f := range slices.Backward(findings) {
		if f.Rule == rule && topOf(f.Path) == folder {
			fmt.Fprintln(out, "  "+f.String())
			if left--; left == 0 {
				fmt.Fprintf(out, "  … all: scripts/ci/language_guard.sh -list %s -in %s\n", rule, folder)
				return
			}
		}
	}
}
