// Package redact removes secrets from log lines and audit rows. It decides by the name of a value,
// at any depth. It cannot recognise a secret with another name.
package redact

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"unicode"
)

// Mask replaces a secret.
const Mask = "[redacted]"

// Parts of a name that make its value a secret, at any position.
var secretWords = map[string]bool{
	"secret": true, "secrets": true, "token": true, "tokens": true, "password": true, "passwords": true, "passwd": true,
	"passphrase": true, "authorization": true, "cookie": true, "cookies": true, "dsn": true,
}

// Pairs of adjacent parts that make a value a secret, as in ssh_private_key_pem.
var pairs = map[[2]string]bool{{"private", "key"}: true, {"api", "key"}: true, {"signing", "key"}: true, {"database", "url"}: true}

// Last parts of a key that describe a secret without containing it.
var about = map[string]bool{"id": true, "ids": true, "name": true, "type": true, "at": true, "seconds": true, "fingerprint": true}

// Secret reports whether the value of this name must not be written anywhere.
func Secret(name string) bool {
	parts := split(name)
	if len(parts) == 0 || len(parts) > 1 && about[parts[len(parts)-1]] {
		return false
	}
	for i, word := range parts {
		if secretWords[word] || i > 0 && pairs[[2]string{parts[i-1], word}] {
			return true
		}
	}
	return false
}

// split splits snake_case, kebab-case and camelCase.
func split(name string) []string {
	var spaced strings.Builder
	before := ' '
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			r = ' '
		case unicode.IsUpper(r) && unicode.IsLower(before):
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(unicode.ToLower(r))
		before = r
	}
	return strings.Fields(spaced.String())
}

// JSON returns the document with every secret masked.
func JSON(document []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber() // a large number must not become another one
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("reading a document: %w", err)
	}
	return json.Marshal((&walker{hidden: Secret}).walk(v))
}

// Shared returns a document that leaves the installation, and the number of values that were masked: those that Attr
// removes from logs. text changes every other string.
func Shared(document []byte, text func(string) string) ([]byte, int, error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, 0, fmt.Errorf("reading a document: %w", err)
	}
	w := walker{hidden: private, text: text}
	out, err := json.Marshal(w.walk(v))
	return out, w.masked, err
}

// walker masks the values of a document.
type walker struct {
	hidden func(name string) bool
	text   func(string) string // of every other string; nil: it stays
	masked int
}

func (w *walker) walk(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if w.hidden(key) && inner != nil {
				v[key] = Mask
				w.masked++
				continue
			}
			v[key] = w.walk(inner)
		}
	case []any:
		for i := range v {
			v[i] = w.walk(v[i])
		}
	case string:
		if w.text != nil {
			return w.text(v)
		}
	}
	return v
}

// Attr is the ReplaceAttr function of every logger. Logs leave the installation, so Attr removes
// e-mail addresses as well.
func Attr(_ []string, a slog.Attr) slog.Attr {
	switch {
	case private(a.Key):
		return slog.String(a.Key, Mask)
	case a.Value.Kind() == slog.KindAny:
		a.Value = slog.AnyValue(value(a.Value.Any()))
	}
	return a
}

func private(name string) bool {
	if Secret(name) {
		return true
	}
	parts := split(name)
	return len(parts) > 0 && (parts[len(parts)-1] == "email" || parts[len(parts)-1] == "mail")
}

// value redacts maps and structs. A value with a text form of its own is no container.
func value(v any) any {
	switch v.(type) {
	case nil, error, fmt.Stringer, encoding.TextMarshaler, *slog.Source:
		return v
	}
	document, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%T", v)
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return fmt.Sprintf("%T", v)
	}
	return (&walker{hidden: private}).walk(plain)
}
