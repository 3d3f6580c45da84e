package validate

import (
	"errors"
	"slices"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// Why a scan ended early.
var (
	errDeep     = errors.New("nested too deep")
	errRepeated = errors.New("a key stands twice")
	errHalf     = errors.New("half of a pair of surrogates")
	errLong     = errors.New("a number of too many digits")
	errNotJSON  = errors.New("not JSON, or text that readers take differently")
)

// scanner reads JSON into nodes. Where it is not sure it fails, and the slow
// readers decide and find the words.
type scanner struct {
	src   string
	at    int
	depth int
	// Finished containers are cut from these, so that a document costs few
	// allocations however many lists it has.
	members []member
	items   []node
}

// scan reads one document that takes all of src.
func scan(src string) (n node, at int, err error) {
	s, _ := scanners.Get().(*scanner)
	s.src, s.at, s.depth = src, 0, 0
	if err = s.value(&n); err == nil {
		if s.space(); s.at < len(s.src) {
			err = errNotJSON
		}
	}
	at = s.at
	// No piece of this document may live on in the next one's stack.
	clear(s.members[:cap(s.members)])
	clear(s.items[:cap(s.items)])
	if cap(s.members)+cap(s.items) <= fewKept {
		s.src, s.members, s.items = "", s.members[:0], s.items[:0]
		scanners.Put(s)
	}
	return n, at, err
}

// fewKept is what a pooled scanner may hold on to.
const fewKept = 256

var scanners = sync.Pool{New: func() any { return &scanner{} }}

func (s *scanner) space() {
	for s.at < len(s.src) {
		switch s.src[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) value(n *node) error {
	s.space()
	if s.at >= len(s.src) {
		return errNotJSON
	}
	n.at.a = int32(s.at) //nolint:gosec // files are far below 2 GiB
	switch c := s.src[s.at]; {
	case c == '"':
		n.kind = kindText
		return s.text(&n.text)
	case c == '{':
		return s.nested(n, s.object)
	case c == '[':
		return s.nested(n, s.list)
	case c == '-' || c >= '0' && c <= '9':
		return s.number(n)
	case c == 't':
		return s.word(n, "true", kindTrue)
	case c == 'f':
		return s.word(n, "false", kindFalse)
	case c == 'n':
		return s.word(n, "null", kindNull)
	}
	return errNotJSON
}

func (s *scanner) nested(n *node, read func(*node) error) error {
	if s.depth++; s.depth > deepest {
		return errDeep
	}
	s.at++
	err := read(n)
	s.depth--
	return err
}

func (s *scanner) word(n *node, word string, kind nodeKind) error {
	if len(s.src)-s.at < len(word) || s.src[s.at:s.at+len(word)] != word {
		return errNotJSON
	}
	s.at += len(word)
	n.kind = kind
	return nil
}

func (s *scanner) object(n *node) error {
	n.kind = kindObject
	base := len(s.members)
	for first := true; ; first = false {
		done, err := s.more(first, '}')
		if err != nil {
			return err
		}
		if done {
			break
		}
		m := member{at: spot{a: int32(s.at)}} //nolint:gosec // files are far below 2 GiB
		if s.at >= len(s.src) || s.src[s.at] != '"' {
			return errNotJSON
		}
		if err := s.text(&m.name); err != nil {
			return err
		}
		if s.space(); s.at >= len(s.src) || s.src[s.at] != ':' {
			return errNotJSON
		}
		s.at++
		if err := s.value(&m.value); err != nil {
			return err
		}
		s.members = append(s.members, m)
	}
	n.members = slices.Clone(s.members[base:])
	s.members = s.members[:base]
	if repeated(n.members) {
		return errRepeated
	}
	return nil
}

func (s *scanner) list(n *node) error {
	n.kind = kindList
	base := len(s.items)
	for first := true; ; first = false {
		done, err := s.more(first, ']')
		if err != nil {
			return err
		}
		if done {
			break
		}
		var item node
		if err := s.value(&item); err != nil {
			return err
		}
		s.items = append(s.items, item)
	}
	n.items = slices.Clone(s.items[base:])
	s.items = s.items[:base]
	return nil
}

// more steps over a comma, or the end.
func (s *scanner) more(first bool, end byte) (done bool, err error) {
	if s.space(); s.at >= len(s.src) {
		return false, errNotJSON
	}
	switch c := s.src[s.at]; {
	case c == end:
		s.at++
		return true, nil
	case first:
		return false, nil
	case c != ',':
		return false, errNotJSON
	}
	s.at++
	if s.space(); s.at < len(s.src) && s.src[s.at] == end {
		return false, errNotJSON
	}
	return false, nil
}

// fewMembers are compared with each other; more of them go into a map.
const fewMembers = 16

func repeated(members []member) bool {
	if len(members) > fewMembers {
		seen := make(map[string]bool, len(members))
		for i := range members {
			if seen[members[i].name] {
				return true
			}
			seen[members[i].name] = true
		}
		return false
	}
	for i := range members {
		for j := range i {
			if members[i].name == members[j].name {
				return true
			}
		}
	}
	return false
}

func (s *scanner) number(n *node) error {
	begin := s.at
	if s.src[s.at] == '-' {
		s.at++
	}
	whole := s.at
	if s.digits() == 0 || s.src[whole] == '0' && s.at > whole+1 {
		return errNotJSON
	}
	n.kind = kindInt
	if s.at < len(s.src) && s.src[s.at] == '.' {
		n.kind = kindFloat
		s.at++
		if s.digits() == 0 {
			return errNotJSON
		}
	}
	if s.at < len(s.src) && (s.src[s.at] == 'e' || s.src[s.at] == 'E') {
		n.kind = kindFloat
		s.at++
		if s.at < len(s.src) && (s.src[s.at] == '+' || s.src[s.at] == '-') {
			s.at++
		}
		if s.digits() == 0 {
			return errNotJSON
		}
	}
	if s.at-begin > mostDigits {
		s.at = begin
		return errLong
	}
	n.text = s.src[begin:s.at]
	if n.text == "-0" {
		n.text = "0"
	}
	return nil
}

// mostDigits is more than any number needs; parsing takes time by their square.
const mostDigits = 400

func (s *scanner) digits() int {
	begin := s.at
	for s.at < len(s.src) && s.src[s.at] >= '0' && s.src[s.at] <= '9' {
		s.at++
	}
	return s.at - begin
}

// text reads a string; one without escapes is a piece of the source.
func (s *scanner) text(to *string) error {
	s.at++
	begin := s.at
	for ; s.at < len(s.src); s.at++ {
		switch c := s.src[s.at]; {
		case c == '"':
			*to = s.src[begin:s.at]
			s.at++
			return nil
		case c == '\\':
			return s.escaped(begin, to)
		case c < ' ':
			return errNotJSON
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s.src[s.at:])
			if r == utf8.RuneError {
				return errNotJSON
			}
			s.at += size - 1
		}
	}
	return errNotJSON
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (s *scanner) escaped(begin int, to *string) error {
	text := []byte(s.src[begin:s.at])
	for s.at < len(s.src) {
		c := s.src[s.at]
		switch {
		case c == '"':
			*to = string(text)
			s.at++
			return nil
		case c < ' ':
			return errNotJSON
		case c == '\\' && s.at+1 < len(s.src) && s.src[s.at+1] == 'u':
			r := s.unicode()
			if r == utf8.RuneError {
				return errHalf
			}
			text = utf8.AppendRune(text, r)
		case c == '\\':
			if s.at+1 >= len(s.src) || escapes[s.src[s.at+1]] == 0 {
				return errNotJSON
			}
			text = append(text, escapes[s.src[s.at+1]])
			s.at += 2
		default:
			r, size := utf8.DecodeRuneInString(s.src[s.at:])
			if r == utf8.RuneError {
				return errNotJSON
			}
			text = append(text, s.src[s.at:s.at+size]...)
			s.at += size
		}
	}
	return errNotJSON
}

// unicode reads \uXXXX, or a pair of surrogates; RuneError for anything else.
func (s *scanner) unicode() rune {
	r, ok := s.hex()
	switch {
	case !ok:
		return utf8.RuneError
	case !utf16.IsSurrogate(r):
		return r
	case s.at+1 >= len(s.src) || s.src[s.at] != '\\' || s.src[s.at+1] != 'u':
		return utf8.RuneError
	}
	low, ok := s.hex()
	if !ok {
		return utf8.RuneError
	}
	return utf16.DecodeRune(r, low)
}

func (s *scanner) hex() (r rune, ok bool) {
	if s.at+6 > len(s.src) {
		return 0, false
	}
	for _, c := range []byte(s.src[s.at+2 : s.at+6]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	s.at += 6
	return r, true
}
