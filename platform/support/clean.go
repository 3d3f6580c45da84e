package support

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"regexp"
	"strings"

	"github.com/gpuaas/gpuaas/internal/redact"
)

// clean masks what the name of a value makes a secret, e-mail addresses and, with pseudonyms, names.
func (c *content) clean(names pseudonyms) error {
	switch path.Ext(c.File) {
	case ".json":
		return c.cleanDocument(names)
	case ".jsonl":
		var out bytes.Buffer
		for line := range bytes.Lines(c.text) {
			one := content{text: bytes.TrimRight(line, "\n")}
			if one.cleanDocument(names) != nil { // a line that is no JSON, as of a library
				one.text = one.cleanText(one.text, names)
			}
			c.redactions += one.redactions
			out.Write(append(one.text, '\n'))
		}
		c.text = out.Bytes()
	case ".txt":
		if c.File == MetricsFile { // a name may equal that of a metric or a label
			c.text = quoted.ReplaceAllFunc(c.text, func(value []byte) []byte { return c.cleanText(value, names) })
			return nil
		}
		c.text = c.cleanText(c.text, names)
	}
	return nil
}

// cleanDocument masks the values of a JSON document.
func (c *content) cleanDocument(names pseudonyms) error {
	text, n, err := redact.Shared(c.text, func(value string) string { return string(c.cleanText([]byte(value), names)) })
	if err != nil {
		return err
	}
	c.text, c.redactions = text, c.redactions+n
	return nil
}

// masks replace what a text can be recognised by, in this sequence.
var masks = []struct {
	form *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`-----BEGIN [A-Z ]+-----[^-]*(-----END [A-Z ]+-----)?`), redact.Mask},
	// The path of a URL of another system may be a secret, as of a webhook. A URL may have a password, or a token as its user.
	{regexp.MustCompile(`([a-z][a-z0-9+.-]*://)[^/\s"'@]+@`), "${1}" + redact.Mask + "@"},
	{regexp.MustCompile(`(https?://[^/\s"'?#\\]+)[/?#][^\s"'\\]*`), "${1}/" + redact.Mask},
	{regexp.MustCompile(`(?i)\b([\w-]*(?:secret|token|password|passwd|passphrase|authorization|cookie|api_?key|signature)[\w-]*)("?(?:\s*[=:]\s*|\s+'))("[^"\n]*"|(?:bearer |basic )?[^\s,;&"]+)`), "${1}${2}" + redact.Mask},
	// Tokens by their form: of Stripe, age, JWT and this product.
	{regexp.MustCompile(`\b(?:sk|rk)_(?:live|test)_\w+|\bwhsec_[\w+/=]+|\bAGE-SECRET-KEY-1[A-Z0-9]+|\beyJ[\w-]+\.[\w-]+\.[\w-]*|\bgp[a-z]_[A-Za-z0-9_-]{8,}`), redact.Mask},
	{regexp.MustCompile(`[\pL\pN._%+-]+@[\pL\pN-]+(\.[\pL\pN-]+)+`), redact.Mask},
}

var (
	word   = regexp.MustCompile(`[\pL\pN_][\pL\pN_.-]*`)
	quoted = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"`)
)

// cleanText masks what can be recognised in a text.
func (c *content) cleanText(text []byte, names pseudonyms) []byte {
	for _, m := range masks {
		text = m.form.ReplaceAllFunc(text, func(found []byte) []byte {
			c.redactions++
			return m.form.ReplaceAll(found, []byte(m.by))
		})
	}
	if len(names) == 0 {
		return text
	}
	return word.ReplaceAllFunc(text, func(found []byte) []byte {
		trimmed := strings.TrimRight(string(found), ".-")
		by, is := names[trimmed]
		if !is {
			return found
		}
		c.redactions++
		return append([]byte(by), found[len(trimmed):]...)
	})
}

// pseudonyms are the replacements of names.
type pseudonyms map[string]string

// naming are the fields whose values are names of people, tenants, projects and nodes.
var naming = map[string]bool{
	"name": true, "display_name": true, "tenant_name": true, "project_name": true, "node_name": true, "node": true, "hostname": true, "login": true, "user": true,
	"tenant": true, "project": true, "management_address": true, "repository": true, "serial": true,
}

// shortest is the length from which a name is replaced everywhere. A shorter one is a part of other texts.
const shortest = 4

// namesIn collects the names of the documents that have some.
func namesIn(all []content, key []byte) pseudonyms {
	names := pseudonyms{}
	for _, c := range all {
		if c.err != nil || !c.Names {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(c.text))
		for {
			var v any
			if d.Decode(&v) != nil {
				break
			}
			names.collect(v, key)
		}
	}
	return names
}

func (p pseudonyms) collect(v any, key []byte) {
	switch v := v.(type) {
	case map[string]any:
		for field, inner := range v {
			if text, is := inner.(string); is && naming[field] {
				p.add(text, key)
			}
			p.collect(inner, key)
		}
	case []any:
		for _, inner := range v {
			p.collect(inner, key)
		}
	}
}

// add replaces each part of a name, because a text may contain one part only.
func (p pseudonyms) add(name string, key []byte) {
	for _, part := range word.FindAllString(name, -1) {
		if part = strings.TrimRight(part, ".-"); len(part) >= shortest {
			m := hmac.New(sha256.New, key)
			m.Write([]byte(part))
			p[part] = "name-" + hex.EncodeToString(m.Sum(nil)[:5])
		}
	}
}
