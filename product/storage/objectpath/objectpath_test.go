package objectpath_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

func TestPathsThatAreAccepted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a", "a/b", "data/train 1/übung.bin", "...a", "a..b", ".hidden", "..a", "%2e%2e", "a b", "日本語/データ", "a:b", "-rf", "com", "com10", "console", "nul_", "x.nul",
		strings.Repeat("a", objectpath.MaxNameBytes), strings.TrimSuffix(strings.Repeat("a/", objectpath.MaxDepth), "/"),
	} {
		p, err := objectpath.Parse("path", text)
		if err != nil || p.String() != text {
			t.Errorf("%q became %q, %v", text, p, err)
		}
	}
}

func TestPathsThatAreRejected(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]errs.Code{
		"..": errs.StoragePathTraversal, "../a": errs.StoragePathTraversal, "a/../b": errs.StoragePathTraversal, ".": errs.StoragePathTraversal, "a/.": errs.StoragePathTraversal,
		"/a": errs.StoragePathTraversal, "a/": errs.StoragePathTraversal, "a//b": errs.StoragePathTraversal, "/": errs.StoragePathTraversal,
		`a\b`: errs.StoragePathTraversal, `..\a`: errs.StoragePathTraversal, "a\x00b": errs.StoragePathTraversal,
		"": errs.ValidationError, "a\x01": errs.ValidationError, "a\nb": errs.ValidationError, "a\x7f": errs.ValidationError, "a\u0085": errs.ValidationError, "a\u202eb": errs.ValidationError, "a\u200bb": errs.ValidationError, "\ufeffa": errs.ValidationError, "a\u2028b": errs.ValidationError, "a\ufffe": errs.ValidationError,
		"a.": errs.ValidationError, "a ": errs.ValidationError, "a./b": errs.ValidationError, "u\u0308": errs.ValidationError, "\xff": errs.ValidationError, "a/\xc3": errs.ValidationError,
		"con": errs.ValidationError, "NUL.txt": errs.ValidationError, "a/Com1": errs.ValidationError, "lpt¹.log": errs.ValidationError, "\ufe0f": errs.ValidationError, "a/\u3164": errs.ValidationError, "a.\ufe0f": errs.ValidationError, "con\ufe0f": errs.ValidationError, "CON .txt": errs.ValidationError, "conin$": errs.ValidationError,
		strings.Repeat("a", objectpath.MaxNameBytes+1):               errs.ValidationError,
		strings.Repeat("aaa/", objectpath.MaxBytes/4) + "aaaa":       errs.ValidationError,
		strings.Repeat("a/", objectpath.MaxDepth) + "a":              errs.ValidationError,
		strings.Repeat(strings.Repeat("a", 250)+"/", 5) + "and more": errs.ValidationError,
	} {
		if p, err := objectpath.Parse("path", text); errs.CodeOf(err) != want {
			t.Errorf("%.60q became %q, %v; want %s", text, p, err, want)
		}
	}
}

func TestFoldersMayEndWithASlash(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "a": "a", "a/": "a", "a/b/": "a/b"} {
		if p, err := objectpath.ParseFolder("prefix", text); err != nil || p.String() != want {
			t.Errorf("%q became %q, %v", text, p, err)
		}
	}
	for _, text := range []string{"/", "//", "a//", "/a", "../"} {
		if p, err := objectpath.ParseFolder("prefix", text); err == nil {
			t.Errorf("%q became %q", text, p)
		}
	}
}

func TestNamesThatSomeFileSystemsCannotDistinguish(t *testing.T) {
	t.Parallel()
	for _, same := range [][2]string{{"A", "a"}, {"Straße", "STRASSE"}, {"É", "e\u0301"}, {"Σ", "ς"}, {"ﬁ", "FI"}, {"☺\ufe0f", "☺"}, {"a\u034f", "A"}} {
		if a, b := objectpath.Fold(same[0]), objectpath.Fold(same[1]); a != b {
			t.Errorf("%q is %q, and %q is %q", same[0], a, same[1], b)
		}
	}
	if objectpath.Fold("a") == objectpath.Fold("b") {
		t.Error("a equals b")
	}
}

func TestContains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		folder, other string
		want          bool
	}{{"a", "a", true}, {"a", "a/b", true}, {"a", "ab", false}, {"a/b", "a", false}} {
		f, _ := objectpath.Parse("", c.folder)
		o, _ := objectpath.Parse("", c.other)
		if f.Contains(o) != c.want {
			t.Errorf("%s contains %s: %v", c.folder, c.other, !c.want)
		}
	}
}

// A path that is accepted stays below its folder, is the same text again, and no other text becomes it.
func FuzzPaths(f *testing.F) {
	for _, seed := range []string{"a/b", "../a", "a\\b", "u\u0308", "CON", "a\u202eb", "\xff", "a//b", " a", "ß/ẞ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := objectpath.Parse("path", text)
		if err != nil {
			if errs.CodeOf(err) != errs.ValidationError && errs.CodeOf(err) != errs.StoragePathTraversal {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if p.String() != text || !utf8.ValidString(text) || len(text) > objectpath.MaxBytes || len(p) > objectpath.MaxDepth || norm.NFC.String(text) != text {
			t.Fatalf("%q became %q", text, p)
		}
		for _, name := range p {
			if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00\r\n") || objectpath.Fold(name) != objectpath.Fold(objectpath.Fold(name)) {
				t.Fatalf("the name %q was accepted", name)
			}
		}
	})
}
