package replay

import (
	"bytes"
)

// Filter removes the queries from output: sequences to which a terminal responds as if its user had typed. It also removes
// torn sequences and characters, which would join what follows a removed query.
func Filter(p []byte) []byte {
	out := make([]byte, 0, len(p))
	var parse parser
	begun, unclosed := 0, false // a text that the next sequence ends
	for i, c := range p {
		if parse.before(c) {
			if parse.state == text && !parse.query() {
				out, unclosed = append(out, p[begun:i]...), true
			}
			begun = i
		} else if parse.idle() {
			begun = i
		}
		if !parse.step(c) {
			continue
		}
		switch {
		case !parse.query():
			out = append(out, p[begun:i+1]...)
		case unclosed:
			out = append(out, "\x1b\\"...)
		}
		unclosed = false
	}
	if !parse.idle() {
		out = append(out, p[begun:]...) // the output that follows completes it
	}
	return out
}

// query reports whether a terminal responds to the present unit. A longer one than the parser stores is no query.
func (p *parser) query() bool { return p.size == len(p.unit) && query(p.unit) }

// query reports whether a terminal responds to a unit.
func query(unit []byte) bool {
	switch {
	case len(unit) == 1:
		return unit[0] == 0x05 // ENQ
	case len(unit) < 2 || unit[0] != 0x1b:
		return false
	}
	switch unit[1] {
	case 'Z': // DECID
		return len(unit) == 2
	case '[':
		return csiQuery(unit)
	case ']':
		return oscQuery(unit[2:])
	case 'P': // DECRQSS, XTGETTCAP
		return bytes.HasPrefix(unit[2:], []byte("$q")) || bytes.HasPrefix(unit[2:], []byte("+q"))
	}
	return false
}

// csi returns the parameters and the final byte of a control sequence, without control characters inside of it.
func csi(unit []byte) (params []byte, final byte, ok bool) {
	if len(unit) < 3 || unit[0] != 0x1b || unit[1] != '[' {
		return nil, 0, false
	}
	last := len(unit) - 1
	for _, c := range unit[2:last] {
		if c >= 0x20 && c < 0x40 {
			params = append(params, c)
		}
	}
	return params, unit[last], unit[last] >= 0x40
}

func csiQuery(unit []byte) bool {
	params, final, _ := csi(unit)
	switch final {
	case 'c', 'n', 'x': // DA, DSR, DECREQTPARM
		return true
	case 'p': // DECRQM; without the question it is a setting
		return bytes.HasSuffix(params, []byte("$"))
	case 'q': // XTVERSION
		return bytes.HasPrefix(params, []byte(">"))
	case 'u': // the keyboard protocol of kitty
		return bytes.HasPrefix(params, []byte("?"))
	case 't': // reports of the window
		n := numbers(params)
		return len(n) > 0 && n[0] >= 11 && n[0] <= 21
	case 'y', '|': // DECRQCRA, DECRQUPSS
		return bytes.HasSuffix(params, []byte("*"))
	case 'w': // DECRQPSR
		return bytes.HasSuffix(params, []byte("$"))
	case 'S': // graphics attributes of xterm
		return bytes.HasPrefix(params, []byte("?"))
	}
	return false
}

// oscQuery reports whether a parameter of an operating system command is a question mark: colours, and the clipboard.
func oscQuery(body []byte) bool {
	body = bytes.TrimSuffix(body, []byte{0x07})
	for part := range bytes.SplitSeq(body, []byte(";")) {
		if string(part) == "?" {
			return true
		}
	}
	return false
}
