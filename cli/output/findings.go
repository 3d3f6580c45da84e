package output

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/version"
)

// Reports are the additional output formats of findings for the CI of a forge.
var Reports = map[string]func(io.Writer, FindingsReport) error{
	"text": WriteText, "github": WriteGitHub, "sarif": writeSARIF, "gitlab": WriteGitLab, "junit": WriteJUnit,
}

// ReportNames are in the sequence in which help prints them.
func ReportNames() []string { return []string{"text", "github", "sarif", "gitlab", "junit"} }

// FindingsReport contains the number of checked objects and the findings.
type FindingsReport struct {
	Files    []string
	Findings []desired.Finding
	Summary  string // one line, when nothing was found
	Page     string // of a run, which GitHub shows; empty elsewhere
}

func WriteText(w io.Writer, r FindingsReport) error {
	for _, f := range r.Findings {
		fmt.Fprintln(w, f)
	}
	if len(r.Findings) == 0 {
		fmt.Fprintln(w, r.Summary)
	}
	return nil
}

// Inlined is the number of annotations that GitHub displays for one step.
const Inlined = 10

// WriteGitHub prints workflow commands, and all findings on the page of the run.
func WriteGitHub(w io.Writer, r FindingsReport) error {
	for i, f := range r.Findings {
		if i < Inlined {
			fmt.Fprintf(w, "::error file=%s,line=%d,col=%d,title=%s::%s\n", property(f.Path), f.Line, f.Column, property(f.Code), command(sentence(f)))
			continue
		}
		fmt.Fprintln(w, command(f.String()))
	}
	if len(r.Findings) == 0 {
		fmt.Fprintln(w, command(r.Summary))
	}
	if r.Page == "" {
		return nil
	}
	page, err := os.OpenFile(r.Page, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("writing the page of the run: %w", err)
	}
	fmt.Fprintf(page, "### gpuaas validate\n\n")
	if len(r.Findings) == 0 {
		fmt.Fprintln(page, r.Summary)
	} else {
		fmt.Fprintf(page, "| place | rule | finding |\n|---|---|---|\n")
	}
	for _, f := range r.Findings {
		fmt.Fprintf(page, "| %s | %s | %s |\n", TableCell(fmt.Sprintf("%s:%d:%d", f.Path, f.Line, f.Column)), TableCell(f.Code), TableCell(sentence(f)))
	}
	return page.Close()
}

// command escapes what would end a workflow command, or begin another.
func command(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

func property(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(text)
}

// TableCell prevents an author's text from becoming Markdown or HTML.
func TableCell(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", "&#124;", "`", "&#96;", "*", "&#42;", "_", "&#95;", "[", "&#91;", "@", "&#64;", "\n", " ", "\r", " ").Replace(text)
}

// sentence is a finding without its place.
func sentence(f desired.Finding) string {
	return strings.TrimPrefix(f.String(), fmt.Sprintf("%s:%d:%d: ", f.Path, f.Line, f.Column))
}

// fingerprint identifies a finding by more than its line, which moves when the file is edited.
func fingerprint(f desired.Finding) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{f.Code, f.Path, f.Object, f.Field, f.Message}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// rulesPage is the address of the page that explains the rules.
const rulesPage = "https://github.com/gpuaas/gpuaas/blob/main/docs/reference/findings.md"

type sarifText struct {
	Text string `json:"text"`
}

type sarifRule struct {
	ID      string    `json:"id"`
	Short   sarifText `json:"shortDescription"`
	Help    sarifText `json:"help"`
	HelpURI string    `json:"helpUri"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn"`
}

type sarifResult struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    int               `json:"ruleIndex"`
	Level        string            `json:"level"`
	Message      sarifText         `json:"message"`
	Locations    []map[string]any  `json:"locations"`
	Fingerprints map[string]string `json:"partialFingerprints"`
}

// writeSARIF prints SARIF 2.1.0, with the rules that were broken.
func writeSARIF(w io.Writer, r FindingsReport) error {
	rules, results := []sarifRule{}, []sarifResult{}
	index := map[string]int{}
	for _, f := range r.Findings {
		if _, known := index[f.Code]; !known {
			index[f.Code] = len(rules)
			rule, _ := desired.RuleOf(f.Code)
			rules = append(rules, sarifRule{f.Code, sarifText{rule.Meaning}, sarifText{rule.Remedy}, rulesPage + "#" + f.Code})
		}
		results = append(results, sarifResult{
			RuleID: f.Code, RuleIndex: index[f.Code], Level: "error", Message: sarifText{sentence(f)},
			Locations: []map[string]any{{"physicalLocation": map[string]any{
				"artifactLocation": map[string]string{"uri": (&url.URL{Path: filepath.ToSlash(f.Path)}).String()},
				"region":           sarifRegion{max(f.Line, 1), max(f.Column, 1)},
			}}},
			Fingerprints: map[string]string{"gpuaas/v1": fingerprint(f)},
		})
	}
	return writeJSON(w, map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []map[string]any{{
			"tool":       map[string]any{"driver": map[string]any{"name": "gpuaas", "version": version.Version, "informationUri": "https://github.com/gpuaas/gpuaas", "rules": rules}},
			"columnKind": "unicodeCodePoints", "results": results,
		}},
	})
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing result: %w", err)
	}
	return nil
}

// WriteGitLab prints a Code Quality report, whose fingerprints are unique.
func WriteGitLab(w io.Writer, r FindingsReport) error {
	type lines struct {
		Begin int `json:"begin"`
	}
	type location struct {
		Path  string `json:"path"`
		Lines lines  `json:"lines"`
	}
	type issue struct {
		Description string   `json:"description"`
		CheckName   string   `json:"check_name"`
		Fingerprint string   `json:"fingerprint"`
		Severity    string   `json:"severity"`
		Location    location `json:"location"`
	}
	issues := []issue{}
	seen := map[string]int{}
	for _, f := range r.Findings {
		mark := fingerprint(f)
		if seen[mark]++; seen[mark] > 1 {
			mark += fmt.Sprintf("-%d", seen[mark])
		}
		issues = append(issues, issue{sentence(f), f.Code, mark, "critical", location{filepath.ToSlash(f.Path), lines{max(f.Line, 1)}}})
	}
	return writeJSON(w, issues)
}

type junitFailure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

// WriteJUnit prints a case for each finding, and one for each file without any.
func WriteJUnit(w io.Writer, r FindingsReport) error {
	suite := junitSuite{Name: "gpuaas validate", Time: "0"}
	faulty := map[string]bool{}
	for _, f := range r.Findings {
		faulty[f.Path] = true
		suite.Cases = append(suite.Cases, junitCase{
			Name: plain(fmt.Sprintf("%s:%d:%d %s", f.Path, f.Line, f.Column, f.Code)), Class: "gpuaas.validate", File: plain(f.Path), Time: "0",
			Failure: &junitFailure{f.Code, plain(sentence(f)), plain(f.String())},
		})
	}
	for _, file := range r.Files {
		if !faulty[file] {
			suite.Cases = append(suite.Cases, junitCase{Name: plain(file), Class: "gpuaas.validate", File: plain(file), Time: "0"})
		}
	}
	suite.Tests, suite.Failures = len(suite.Cases), len(r.Findings)
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	fmt.Fprint(w, xml.Header)
	err := e.Encode(struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}{Tests: suite.Tests, Failures: suite.Failures, Suites: []junitSuite{suite}})
	if err != nil {
		return fmt.Errorf("writing result: %w", err)
	}
	fmt.Fprintln(w)
	return nil
}

// plain removes the characters that XML does not allow.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' || r == 0xfffe || r == 0xffff {
			return -1
		}
		return r
	}, text)
}
