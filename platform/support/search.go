package support

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
)

// shortestSecret is the length from which a secret is searched for. A shorter one is a part of other texts.
const shortestSecret = 8

// shortestLine is the length from which a line of a secret is searched for.
const shortestLine = 16

// needle is one form of a secret.
type needle struct {
	name string
	form []byte
}

type searcher []needle

// search prepares the forms in which each secret may be written.
func search(secrets []Secret) (s searcher) {
	for _, one := range lines(secrets) {
		raw := []byte(one.Value)
		if len(raw) < shortestSecret {
			continue
		}
		escaped, _ := json.Marshal(one.Value) //nolint:errchkjson // a string
		for _, form := range [][]byte{
			raw, bytes.Trim(escaped, `"`), []byte(url.QueryEscape(one.Value)), []byte(url.PathEscape(one.Value)),
			[]byte(hex.EncodeToString(raw)), []byte(strings.ToUpper(hex.EncodeToString(raw))),
			// Without the last characters, which depend on what follows.
			base64.RawStdEncoding.AppendEncode(nil, raw[:len(raw)/3*3]), base64.RawURLEncoding.AppendEncode(nil, raw[:len(raw)/3*3]),
		} {
			s = append(s, needle{one.Name, form})
		}
	}
	return s
}

// lines adds the lines of secrets of several lines, such as keys: a text may have one of them only.
func lines(secrets []Secret) []Secret {
	all := secrets
	for _, one := range secrets {
		if !strings.Contains(strings.TrimSpace(one.Value), "\n") {
			continue
		}
		for line := range strings.Lines(one.Value) {
			if line = strings.TrimSpace(line); len(line) >= shortestLine && !strings.HasPrefix(line, "-----") {
				all = append(all, Secret{one.Name, line})
			}
		}
	}
	return all
}

// in returns the name of a secret that the text contains, or "".
func (s searcher) in(text []byte) string {
	for _, n := range s {
		if bytes.Contains(text, n.form) {
			return n.name
		}
	}
	return ""
}
