package document

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/token"

	"github.com/gpuaas/gpuaas/desired"
)

// Readable reports whether a file of this name contains desired objects. Other files, hidden files and CUE's own module
// folder are ignored.
func Readable(name string) bool {
	for element := range strings.SplitSeq(name, "/") {
		if element == "cue.mod" || strings.HasPrefix(element, ".") && element != "." && element != ".." {
			return false
		}
	}
	switch path.Ext(name) {
	case ".cue", ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// Place is a position in a file of a Git source.
type Place struct {
	Path         string
	Line, Column int
}

func (p Place) String() string { return fmt.Sprintf("%s:%d:%d", p.Path, p.Line, p.Column) }

// longest limits a message to a length that an operator still reads.
const longest = 800

// short shortens a text of an author for display.
func short(text string) string {
	if len(text) <= longest {
		return text
	}
	cut := longest
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// Finding returns a finding at the position, with its texts shortened.
func (p Place) Finding(code, object, field, message, expected string) desired.Finding {
	return desired.Finding{
		Code: code, Path: p.Path, Line: p.Line, Column: p.Column,
		Object: short(object), Field: short(field), Message: short(message), Expected: short(expected),
	}
}

// FirstInvalid returns the offset of the first byte that is not UTF-8, or -1.
func FirstInvalid(src []byte) int {
	if utf8.Valid(src) {
		return -1
	}
	at := 0
	for {
		r, size := utf8.DecodeRune(src[at:])
		if r == utf8.RuneError && size < 2 {
			return at
		}
		at += size
	}
}

// PlaceAt returns a position of the evaluator. It reports false for positions in the schema and in the library of CUE.
func PlaceAt(p token.Pos) (Place, bool) {
	pos := p.Position()
	// The schema and CUE's own library have no such names.
	if !p.IsValid() || !Readable(pos.Filename) {
		return Place{}, false
	}
	return Place{pos.Filename, pos.Line, pos.Column}, true
}

// PlaceOf returns the position of a value, or a position around it when the value was computed.
func PlaceOf(v cue.Value, around Place) Place {
	if at, ok := PlaceAt(v.Pos()); ok {
		return at
	}
	return around
}
