package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#+ (.+)$`)
	foreign = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
)

// TestLinksLeadSomewhere follows every relative link, and its anchor where it has one.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	followed := 0
	for _, p := range pages(t) {
		for _, l := range p.prose {
			for _, match := range link.FindAllStringSubmatch(inline.ReplaceAllString(l.text, ""), -1) {
				if foreign.MatchString(match[1]) {
					continue
				}
				followed++
				if why := resolve(t, p.path, match[1]); why != "" {
					t.Errorf("%s:%d: %s %s", p.path, l.number, match[1], why)
				}
			}
		}
	}
	if followed < 20 {
		t.Errorf("only %d links found: this test reads nothing", followed)
	}
}

func resolve(t *testing.T, from, to string) (why string) {
	t.Helper()
	file, anchor, _ := strings.Cut(to, "#")
	target := from
	if file != "" {
		target = path.Join(path.Dir(from), file)
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
		return "leads nowhere"
	}
	if anchor == "" || !strings.HasSuffix(target, ".md") {
		return ""
	}
	for _, l := range parse(target, read(t, target)).prose {
		if match := heading.FindStringSubmatch(l.text); match != nil && slug(match[1]) == anchor {
			return ""
		}
	}
	return "names no heading"
}

// slug is the anchor that forges give a heading.
func slug(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			b.WriteRune('-')
		case r == '-', r == '_', 'a' <= r && r <= 'z', '0' <= r && r <= '9', r > 127:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// The checker is tested as well: one that follows no link finds no fault.
func TestFollow(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"../README.md": "", "absent.md": "leads nowhere", "architecture.md#no-such-heading": "names no heading", "adr": "",
	} {
		if got := resolve(t, "docs/architecture.md", to); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
}
