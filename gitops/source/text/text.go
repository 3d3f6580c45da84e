// Package text makes text of foreign authors safe to display.
package text

import (
	"strings"
	"unicode"
)

// mostCharacters limits a name or a title.
const mostCharacters = 256

// Printable removes characters that could repaint the terminal or the page that displays the text.
func Printable(text string) string {
	shown := strings.Map(func(r rune) rune {
		switch {
		case r == unicode.ReplacementChar, Hidden(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if runes := []rune(shown); len(runes) > mostCharacters {
		shown = string(runes[:mostCharacters-1]) + "…"
	}
	return strings.TrimSpace(shown)
}

// Hidden reports whether a character is invisible or changes how others are displayed.
func Hidden(r rune) bool {
	return !unicode.IsGraphic(r) || unicode.Is(unicode.Bidi_Control, r) || r != ' ' && unicode.IsSpace(r)
}
