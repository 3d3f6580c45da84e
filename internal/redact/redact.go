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
	return json.Marshal(walk(v, Secret))
}

func walk(v any, hidden func(string) bool) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if v[key] = walk(inner, hidden); hidden(key) && inner != nil {
				v[key] = Mask
			}
		}
	case []any:
		for i := range v {
			v[i] = walk(v[i], hidden)
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
	return walk(plain, private)
}
