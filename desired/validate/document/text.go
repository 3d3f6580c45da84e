package document

import (
	"strconv"
	"strings"
	"unicode"
)

// shownRunes limits a value so that a finding fits on one line of a terminal.
const shownRunes = 60

// ShownText returns a text as findings show it: quoted and short.
func ShownText(s string) string {
	if r := []rune(s); len(r) > shownRunes {
		s = string(r[:shownRunes]) + "…"
	}
	return "the text " + Quoted(s)
}

// Quoted quotes a text for a terminal.
func Quoted(s string) string {
	if q := strconv.Quote(s); Printable(q) == q {
		return q
	}
	return strconv.QuoteToASCII(s)
}

// Printable quotes a text that could repaint the terminal of its reader.
func Printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.Is(unicode.Bidi_Control, r) }) {
		return strconv.QuoteToASCII(s)
	}
	return s
}
