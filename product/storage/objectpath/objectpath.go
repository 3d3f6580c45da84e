// Package objectpath defines which names stored objects may have. Every entry point (REST, S3, command line, archives,
// mounts) parses paths with it, so that a name that one of them accepts is valid in all of them, and on the file systems of
// all clients.
package objectpath

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Limits of a path. A path of MaxBytes bytes contains the slashes between its names.
const (
	MaxNameBytes = 255
	MaxBytes     = 1024
	MaxDepth     = 64
)

// Path is the sequence of the names from the folder of the project to a stored object. An empty path is that folder.
type Path []string

// Parse reads a path such as "data/train/a.bin". The text is percent-decoded already. field names it in errors.
func Parse(field, text string) (Path, error) {
	switch {
	case text == "":
		return nil, errs.Invalid(field, "is empty")
	case len(text) > MaxBytes:
		return nil, errs.Invalid(field, "has %d bytes; %d are possible", len(text), MaxBytes)
	}
	names := strings.Split(text, "/")
	if len(names) > MaxDepth {
		return nil, errs.Invalid(field, "has %d folders and names; %d are possible", len(names), MaxDepth)
	}
	for _, name := range names {
		if err := check(field, name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// ParseFolder is Parse for a folder: the text may be empty, and may end with a slash.
func ParseFolder(field, text string) (Path, error) {
	if text == "" {
		return nil, nil
	}
	if trimmed := strings.TrimSuffix(text, "/"); trimmed != "" {
		text = trimmed
	}
	return Parse(field, text)
}

// String is the reverse of Parse.
func (p Path) String() string { return strings.Join(p, "/") }

// Name is the last name of a path that is not empty.
func (p Path) Name() string { return p[len(p)-1] }

// Folder is the path without its last name.
func (p Path) Folder() Path { return p[:len(p)-1] }

// Contains reports whether other is p itself or below it.
func (p Path) Contains(other Path) bool {
	return len(other) >= len(p) && slices.Equal(p, other[:len(p)])
}

// Fold returns the form by which the names of a folder are distinct: names that differ only in upper and lower case, in the
// composition of their characters, or in characters that are not displayed, are one file on some file systems.
func Fold(name string) string {
	return norm.NFC.String(cases.Fold().String(norm.NFD.String(displayed(name))))
}

// displayed returns a name without the characters that change only how others are displayed, such as the selector of coloured emoji.
func displayed(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, name)
}

// FoldAll is Fold for each name.
func (p Path) FoldAll() []string {
	all := make([]string, len(p))
	for i, name := range p {
		all[i] = Fold(name)
	}
	return all
}

func check(field, name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return traversal(field, name)
	case len(name) > MaxNameBytes:
		return errs.Invalid(field, "has a name of %d bytes; %d are possible", len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return errs.Invalid(field, "is not UTF-8")
	}
	for _, r := range name {
		if err := checkRune(field, name, r); err != nil {
			return err
		}
	}
	shown := displayed(name)
	switch {
	case shown == "":
		return errs.Invalid(field, "has the name %q, which has no character that is displayed", name).Try("choose another name")
	case !norm.NFC.IsNormalString(name):
		return errs.Invalid(field, "has the name %q, which is not in Unicode normalization form C", name).Try("normalize the name")
	case strings.HasSuffix(shown, ".") || strings.HasSuffix(shown, " "):
		return errs.Invalid(field, "has the name %q, which ends with a dot or a space", name).Try("remove it: some file systems cannot store it")
	case reserved(shown):
		return errs.Invalid(field, "has the name %q, which is a device on Windows", name).Try("choose another name")
	}
	return nil
}

// traversal is the error for names that a file system would interpret.
func traversal(field, name string) error {
	e := errs.New(errs.StoragePathTraversal, "the path contains the name %q", name).At(field)
	if name == "" {
		e = errs.New(errs.StoragePathTraversal, "the path begins or ends with a slash, or has two in sequence").At(field)
	}
	return e.Try("give the path from the folder of the project, such as data/train.bin")
}

func checkRune(field, name string, r rune) error {
	switch {
	case r == '\\' || r == 0:
		return errs.New(errs.StoragePathTraversal, "the name %q contains a backslash or a zero byte", name).At(field).Try("separate folders with /")
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Noncharacter_Code_Point):
		return errs.Invalid(field, "has the name %q with the invisible character %U", name, r).Try("remove it")
	}
	return nil
}

// reserved reports whether Windows opens a device instead of a file of the name, also with an extension.
func reserved(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	if slices.Contains([]string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}, stem) {
		return true
	}
	for _, device := range []string{"COM", "LPT"} {
		if number, ok := strings.CutPrefix(stem, device); ok && utf8.RuneCountInString(number) == 1 && strings.ContainsAny(number, "0123456789¹²³") {
			return true
		}
	}
	return false
}
