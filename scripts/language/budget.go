package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// counts are the findings per rule and top-level folder.
type counts map[string]map[string]int

func count(findings []finding) counts {
	c := counts{}
	for _, rule := range ruleNames {
		c[rule] = map[string]int{}
	}
	for _, f := range findings {
		c[f.Rule][topOf(f.Path)]++
	}
	return c
}

// topOf returns the top-level folder of a path, and "." for a file of the root.
func topOf(file string) string {
	folder, _, below := strings.Cut(file, "/")
	if !below {
		return "."
	}
	return folder
}

func (c counts) total(rule string) (sum int) {
	for _, n := range c[rule] {
		sum += n
	}
	return sum
}

// over names the rules with more findings than budget allows in all folders together. Files may move
// from one folder to another.
func (c counts) over(budget counts) (rules []string) {
	for _, rule := range ruleNames {
		if _, exists := budget[rule]; exists && c.total(rule) > budget.total(rule) {
			rules = append(rules, fmt.Sprintf("%s has %d findings, the budget is %d", rule, c.total(rule), budget.total(rule)))
		}
	}
	return rules
}

// print writes the number of findings of each rule and its folders, the largest first.
func (c counts) print(out io.Writer) {
	for _, rule := range ruleNames {
		fmt.Fprintf(out, "%-14s %6d ", rule, c.total(rule))
		for _, folder := range slices.SortedFunc(maps.Keys(c[rule]), func(a, b string) int { return c[rule][b] - c[rule][a] }) {
			fmt.Fprintf(out, " %s %d", folder, c[rule][folder])
		}
		fmt.Fprintln(out)
	}
}

func (c counts) save(file string) error {
	text, err := yaml.Marshal(map[string]map[string]int(c))
	if err != nil {
		return fmt.Errorf("encoding the budget: %w", err)
	}
	const head = "# Findings of scripts/language that are left, by rule and folder. The numbers may only fall:\n" +
		"# scripts/ci/language_guard.sh -write\n"
	return os.WriteFile(file, append([]byte(head), text...), 0o644) //nolint:gosec // a file of the repository
}

func readBudget(file string) (counts, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the budget: %w", err)
	}
	c := counts{}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func folders(sets ...map[string]int) []string {
	all := map[string]bool{}
	for _, set := range sets {
		for folder := range set {
			all[folder] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
