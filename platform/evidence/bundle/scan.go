package bundle

import (
	"bytes"
	"slices"
	"strings"
)

// The functions of this file accept a file in the form in which Sign writes it, without a general reader of JSON, which is slower
// than the signature. Each of them may reject a correct file with rare text: readEnvelope and readContent decide then, and name the
// fault of a wrong one.

const (
	envelopeStart = `{"payloadType":"` + payloadType + `","payload":"`
	envelopeKey   = `","signatures":[{"keyid":"`
	envelopeSig   = `","sig":"`
	envelopeEnd   = `"}]}` + "\n"
)

// splitEnvelope cuts an envelope with one signature. The alphabet of its texts in base64 is not verified.
func splitEnvelope(file []byte) (e envelope, ok bool) {
	text, starts := bytes.CutPrefix(file, []byte(envelopeStart))
	payload, text, hasKey := bytes.Cut(text, []byte(envelopeKey))
	kid, text, hasSig := bytes.Cut(text, []byte(envelopeSig))
	sig, ends := bytes.CutSuffix(text, []byte(envelopeEnd))
	if !starts || !hasKey || !hasSig || !ends || !isPlain(kid) || !isPlain(sig) || bytes.IndexByte(payload, '"') >= 0 || bytes.IndexByte(payload, '\\') >= 0 {
		return e, false
	}
	return envelope{payload: payload, sig: sig, kid: string(kid)}, true
}

const partsStart, partsEnd = `"parts":[`, `]}}`

// scanContent reads a payload. The records of its parts are cut out, and the rest, which is small, is decoded.
func scanContent(payload []byte) (c Content, ok bool) {
	start, rest, ok := bytes.Cut(payload, []byte(partsStart))
	if !ok {
		return c, false
	}
	s := scanner{text: rest}
	var parts []Part
	for i, name := range Names() {
		if i > 0 && !s.literal(",") || !s.literal(`{"name":"`+name+`","records":`) {
			return c, false
		}
		from := s.at
		if !s.value(recordsDepth) {
			return c, false
		}
		parts = append(parts, Part{Name: name, Records: rest[from:s.at]})
		if !s.literal("}") {
			return c, false
		}
	}
	if string(rest[s.at:]) != partsEnd || decode("payload", slices.Concat(start, []byte(partsStart+partsEnd)), &c) != nil {
		return c, false
	}
	c.Predicate.Parts = parts
	return c, true
}

const (
	// recordsDepth is the number of objects and lists around the records of a part.
	recordsDepth = 4
	// maxScanned is the number of keys of an object that are compared with one another.
	maxScanned = 40
)

// plain contains the bytes of a string that have one spelling, and that Sign does not escape.
var plain = func() (t [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		t[c] = !strings.ContainsRune(`"\<>&`, rune(c))
	}
	return t
}()

func isPlain(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool { return !plain[c] })
}

// scanner accepts a value without spaces and without duplicate keys.
type scanner struct {
	text []byte
	at   int
	keys [][]byte // of the objects that are open
}

func (s *scanner) literal(want string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(want)) {
		return false
	}
	s.at += len(want)
	return true
}

func (s *scanner) next(c byte) bool {
	if s.at >= len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) value(depth int) bool {
	switch {
	case s.at >= len(s.text):
		return false
	case s.next('{'):
		return depth <= maxDepth && (s.next('}') || s.members(depth+1))
	case s.next('['):
		return depth <= maxDepth && (s.next(']') || s.elements(depth+1))
	case s.text[s.at] == '"':
		_, ok := s.quoted()
		return ok
	}
	return s.literal("true") || s.literal("false") || s.literal("null") || s.number()
}

func (s *scanner) elements(depth int) bool {
	for s.value(depth) {
		if s.next(']') {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
	return false
}

func (s *scanner) members(depth int) bool {
	first := len(s.keys)
	for {
		key, ok := s.quoted()
		if !ok || len(s.keys)-first > maxScanned || bytes.IndexByte(key, '\\') >= 0 || s.repeats(first, key) || !s.next(':') {
			return false
		}
		s.keys = append(s.keys, key)
		if !s.value(depth) {
			return false
		}
		if s.next('}') {
			s.keys = s.keys[:first]
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}

func (s *scanner) repeats(first int, key []byte) bool {
	return slices.ContainsFunc(s.keys[first:], func(other []byte) bool { return bytes.Equal(other, key) })
}

// quoted returns a string as it is written.
func (s *scanner) quoted() (text []byte, ok bool) {
	if !s.next('"') {
		return nil, false
	}
	from := s.at
	for {
		rest := s.text[s.at:]
		n := 0
		for n < len(rest) && plain[rest[n]] {
			n++
		}
		s.at += n
		switch {
		case n == len(rest):
			return nil, false
		case rest[n] == '"':
			s.at++
			return s.text[from : s.at-1], true
		case rest[n] != '\\' || !s.escape():
			return nil, false
		}
	}
}

func (s *scanner) escape() bool {
	const short, long = 2, 6
	rest := s.text[s.at:]
	switch {
	case len(rest) >= short && strings.IndexByte(`"\/bfnrt`, rest[1]) >= 0:
		s.at += short
		return true
	case len(rest) >= long && rest[1] == 'u' && !slices.ContainsFunc(rest[short:long], func(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) < 0 }):
		s.at += long
		return true
	}
	return false
}

func (s *scanner) number() bool {
	s.next('-')
	if !s.next('0') && !s.digits() {
		return false
	}
	if s.next('.') && !s.digits() {
		return false
	}
	if s.next('e') || s.next('E') {
		_ = s.next('+') || s.next('-')
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	from := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > from
}
