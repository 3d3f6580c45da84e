package objectpath_test

import (
	"hash/maphash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// pieces are parts of names that file systems, shells, browsers and archives treat specially.
var pieces = []string{
	".", "..", "/", "//", "\\", "a", "A", "b", "e", "E", "é", "É", "e\u0301", "\u0301", "ß", "ẞ", "SS", "ss", "ﬁ", "fi", "i", "I", "ı", "İ", "ς", "σ", "Σ", "K", "Å", "Å", "ſ", "s", "µ", "μ",
	" ", "\u00a0", "\u3000", "\t", "\n", "\x00", "\x7f", "\u200b", "\u202e", "\ufeff", "\ufe0f", "\ufe0e", "\u034f", "\u115f", "\u3164", "\u180b", "☺", "\xff", "\xc0\xae", "%2e", "%2f", "%00", "~", "$", ":", "*", "?", "\"", "<", ">", "|",
	"con", "CON", "nul", "com1", "lpt¹", ".txt", "…", "．", "／", "＼", "0", "1", "-", "_", "가", "가", "各", "が", "が", "\U000e0100", "\U0001f468\u200d\U0001f469",
}

// simple is the smallest rune among those that differ only in case.
func simple(r rune) rune {
	least := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return least
}

// onDisk returns what file systems make of a name: without case, composition or characters that are not displayed, and without the
// end that Windows leaves out.
func onDisk(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf) {
			return -1
		}
		return simple(r)
	}, norm.NFD.String(name))
	return norm.NFD.String(strings.TrimRight(name, ". "))
}

// No path that is accepted leaves the folder of its project, and no two names of a folder become one on a file system: they have one
// folded form, and a folder has one object of it. GPUAAS_NAMES is the number of paths.
func TestManyNames(t *testing.T) {
	t.Parallel()
	n := 50_000
	if text := os.Getenv("GPUAAS_NAMES"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	random := rand.New(rand.NewPCG(1, 2))
	seed := maphash.MakeSeed()
	folded := map[uint64]uint64{} // by what file systems make of a name
	accepted := 0
	for range n {
		var text strings.Builder
		for range 1 + random.IntN(6) {
			if random.IntN(40) == 0 {
				text.WriteRune(rune(random.IntN(0x2fa20)))
				continue
			}
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		p, err := objectpath.Parse("path", text.String())
		if err != nil {
			continue
		}
		accepted++
		stays(t, p)
		for _, name := range p {
			key, fold := maphash.String(seed, onDisk(name)), maphash.String(seed, objectpath.Fold(name))
			if other, known := folded[key]; known && other != fold {
				t.Fatalf("the name %q (%+q) becomes one with another name, and has another folded form", name, name)
			}
			folded[key] = fold
		}
	}
	if accepted < n/20 {
		t.Errorf("only %d of %d paths were accepted", accepted, n)
	}
}

// stays reports a path that leads out of a folder, with the separators of any system.
func stays(t *testing.T, p objectpath.Path) {
	t.Helper()
	const root = "/tenants/project"
	for _, text := range []string{p.String(), strings.ReplaceAll(p.String(), `\`, "/")} {
		if got := filepath.Join(root, text); got != root+"/"+text {
			t.Fatalf("%q leads to %q", text, got)
		}
		if !filepath.IsLocal(text) {
			t.Fatalf("%q is not local", text)
		}
	}
}
