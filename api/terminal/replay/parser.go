package replay

type state int

const (
	ground    state = iota
	continued       // a character of several bytes
	escape
	intermediate
	control // CSI
	text    // OSC, DCS, SOS, PM, APC: until ESC, with which ST begins, and OSC also until BEL
)

// maxUnit limits what a parser stores of one sequence. A longer one is no query.
const maxUnit = 256

// parser splits output into units: a character, a control character or an escape sequence.
type parser struct {
	state state
	more  int    // bytes of the character that follow
	osc   bool   // the text ends with BEL, too
	unit  []byte // the present unit, or the last one; at most maxUnit bytes
	size  int    // of the unit
}

// idle reports that the next byte begins a unit.
func (p *parser) idle() bool { return p.state == ground }

// before reports that the unit ended before c: c begins another one. Only a text is complete then.
func (p *parser) before(c byte) bool {
	return c == 0x1b && p.state != ground || p.state == continued && c&0xc0 != 0x80
}

// step reads a byte and reports whether it ends a unit.
func (p *parser) step(c byte) bool {
	if p.before(c) {
		p.state = ground
	}
	if p.state == ground {
		p.unit, p.size = p.unit[:0], 0
	}
	if p.size++; len(p.unit) < maxUnit {
		p.unit = append(p.unit, c)
	}
	switch c {
	case 0x18, 0x1a: // CAN and SUB end each sequence
		p.state = ground
		return true
	case 0x1b:
		p.state = escape
		return false
	}
	p.state = p.next(c)
	return p.state == ground
}

func (p *parser) next(c byte) state {
	switch p.state {
	case ground:
		return p.begin(c)
	case continued:
		if p.more--; p.more > 0 {
			return continued
		}
		return ground
	case escape:
		return p.escaped(c)
	case intermediate:
		if c < 0x30 { // also a control character, which changes nothing
			return intermediate
		}
		return ground
	case control:
		if c >= 0x40 && c < 0x7f {
			return ground
		}
		return control
	case text:
		if p.osc && c == 0x07 {
			return ground
		}
		return text
	}
	return ground
}

func (p *parser) begin(c byte) state {
	switch {
	case c >= 0xf0 && c < 0xf8:
		p.more = 3
	case c >= 0xe0 && c < 0xf0:
		p.more = 2
	case c >= 0xc0 && c < 0xe0:
		p.more = 1
	default:
		return ground
	}
	return continued
}

func (p *parser) escaped(c byte) state {
	switch {
	case c == '[':
		return control
	case c == ']':
		p.osc = true
		return text
	case c == 'P', c == 'X', c == '^', c == '_':
		p.osc = false
		return text
	case c < 0x20:
		return escape
	case c < 0x30:
		return intermediate
	}
	return ground
}
