package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// The rules, by the name that -list and budget.yaml use.
const (
	ruleName     = "name"          // a declared name with a word of the glossary's lists
	ruleDoc      = "doc"           // a doc comment of the form "X is what …"
	ruleSummary  = "summary"       // an API summary that is not verb and noun
	ruleShort    = "short"         // a command's short text that is not verb and noun
	ruleRejected = "rejected_text" // a rejected word in a comment or text
	ruleCounted  = "counted_text"  // a vague word in a comment or text
)

var ruleNames = []string{ruleName, ruleDoc, ruleSummary, ruleShort, ruleRejected, ruleCounted}

// finding is one place that breaks a rule.
type finding struct {
	Rule, Path string
	Line       int
	What       string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.What) }

// rules are the lists of rules.yaml.
type rules struct {
	NameWords     []string          `yaml:"name_words"`
	Names         map[string]string `yaml:"names"`
	AllowedNames  []string          `yaml:"allowed_names"`
	RejectedTexts []string          `yaml:"rejected_texts"`
	CountedTexts  []string          `yaml:"counted_texts"`
	AllowedTexts  []string          `yaml:"allowed_texts"`
	SummaryVerbs  string            `yaml:"summary_verbs"`
	SummaryWords  int               `yaml:"summary_words"`
	ShortVerbs    string            `yaml:"short_verbs"`
	ShortWords    int               `yaml:"short_words"`
	Skip          []string          `yaml:"skip"`

	nameWords                  map[string]bool
	rejected, counted, allowed *regexp.Regexp
}

func readRules(file string) (*rules, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	return parseRules(text)
}

func parseRules(text []byte) (*rules, error) {
	r := &rules{}
	if err := yaml.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	r.nameWords = map[string]bool{}
	for _, w := range r.NameWords {
		r.nameWords[w] = true
	}
	r.rejected, r.counted, r.allowed = anyOf(r.RejectedTexts), anyOf(r.CountedTexts), anyOf(r.AllowedTexts)
	return r, nil
}

// anyOf matches each of the words as a whole word, in any case. The longest of two that start at the
// same place wins.
func anyOf(words []string) *regexp.Regexp {
	sorted := slices.Clone(words)
	slices.SortFunc(sorted, func(a, b string) int { return len(b) - len(a) })
	for i, w := range sorted {
		sorted[i] = strings.ReplaceAll(regexp.QuoteMeta(w), " ", `\s+`)
	}
	return regexp.MustCompile(`(?i)(?:^|[^\pL\pN_-])(` + strings.Join(sorted, "|") + `)(?:$|[^\pL\pN_-])`)
}

// words returns the matches of a list in a text, each with its offset. Allowed phrases are blanked
// first.
func (r *rules) words(list *regexp.Regexp, text string) (found []match) {
	text = r.allowed.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat(" ", len(s)) })
	for at := 0; at < len(text); {
		m := list.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		found = append(found, match{at + m[2], text[at+m[2] : at+m[3]]})
		at += m[3]
	}
	return found
}

type match struct {
	at   int
	text string
}

var article = regexp.MustCompile(`(?i)\b(a|an|the)\b`)

// summary returns the fault of an API summary, or nothing.
func (r *rules) summary(text string) string {
	switch fields := strings.Fields(text); {
	case len(fields) < 2 || !slices.Contains(strings.Fields(r.SummaryVerbs), fields[0]):
		return fmt.Sprintf("summary %q is not a verb of the list and a noun", text)
	case len(fields) > r.SummaryWords:
		return fmt.Sprintf("summary %q has more than %d words", text, r.SummaryWords)
	case strings.HasSuffix(text, "."), strings.Contains(text, ","), article.MatchString(text):
		return fmt.Sprintf("summary %q has a full stop, a clause or an article", text)
	}
	return ""
}

// enumeration is the only place for a comma: "Show balance, burn rate and runway".
var enumeration = regexp.MustCompile(`, [^,]+ (and|or) `)

// short returns the fault of a command's short text, or nothing.
func (r *rules) short(text string) string {
	fields := strings.Fields(text)
	switch {
	case len(fields) < 2 || !slices.Contains(strings.Fields(r.ShortVerbs), fields[0]):
		return fmt.Sprintf("short %q is not a verb of the list and an object", text)
	case len(fields) > r.ShortWords:
		return fmt.Sprintf("short %q has more than %d words", text, r.ShortWords)
	case strings.HasSuffix(text, "."), strings.ContainsAny(text, ";:"), strings.Contains(text, ",") && !enumeration.MatchString(text):
		return fmt.Sprintf("short %q has a full stop or a clause", text)
	}
	return ""
}

var nounless = regexp.MustCompile(`^\w+(, \w+)*( and \w+)? (is|are|was|were) (\w+ )?` +
	`(what|who|whose|whom|whoever|whatever|how|why|where|when|one that|those that|all that|everything that|by when|of what|from what)\b`)

// vague reports a doc comment that names no noun: "X is what …", "X is how …".
func vague(doc string) bool { return nounless.MatchString(doc) }

// nameParts splits a name at capitals, digits and underscores.
func nameParts(name string) (parts []string) {
	start := 0
	flush := func(end int) {
		if end > start {
			parts = append(parts, strings.ToLower(name[start:end]))
		}
		start = end
	}
	for i, c := range name {
		switch {
		case c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9':
			flush(i)
			start = i + 1
		case c >= 'A' && c <= 'Z':
			before := i > 0 && isLower(name[i-1])
			after := i+1 < len(name) && isLower(name[i+1])
			if before || after {
				flush(i)
			}
		}
	}
	flush(len(name))
	return parts
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

// name returns the fault of a declared name, or nothing.
func (r *rules) name(name string) string {
	if use, rejected := r.Names[name]; rejected && !slices.Contains(r.AllowedNames, name) {
		return fmt.Sprintf("name %s: use %s", name, use)
	}
	bare := name
	for _, a := range r.AllowedNames {
		bare = strings.ReplaceAll(bare, a, "_")
	}
	for _, p := range nameParts(bare) {
		if r.nameWords[p] {
			return fmt.Sprintf("name %s contains %q", name, p)
		}
	}
	return ""
}
