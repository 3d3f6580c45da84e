// Package replay stores the last output of a terminal for a client that connects again. A replay starts at a complete escape
// sequence, and contains no query that the client's terminal would respond to a second time.
package replay

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Size is the number of bytes that a Buffer stores.
const Size = 64 << 10

// maxSGR limits the attributes that a Buffer stores from before its first byte.
const maxSGR = 16

// Buffer stores the last Size bytes of output, and what earlier output has set: modes, attributes and the scroll region.
type Buffer struct {
	last   []byte // the output is last[from:] and then last[:from]; from is 0 until there are Size bytes
	from   int
	tail   parser // has read everything before them
	modes  map[int]bool
	sgr    [][]byte
	region []byte
	erased bool // output was dropped
}

// Write appends output.
func (r *Buffer) Write(p []byte) {
	for len(p) > 0 {
		if free := Size - len(r.last); free > 0 {
			n := min(free, len(p))
			r.grow(n)
			r.last = append(r.last, p[:n]...)
			p = p[n:]
			continue
		}
		old := r.last[r.from:min(Size, r.from+len(p))]
		r.drop(old)
		p = p[copy(old, p):]
		r.from = (r.from + len(old)) % Size
	}
}

// grow reserves n bytes. A terminal that prints little needs little memory, and none needs more than Size.
func (r *Buffer) grow(n int) {
	if need := len(r.last) + n; need > cap(r.last) {
		r.last = append(make([]byte, 0, min(max(need, 2*cap(r.last)), Size)), r.last...)
	}
}

// drop reads output that the Buffer does not store any more.
func (r *Buffer) drop(p []byte) {
	r.erased = true
	for len(p) > 0 {
		if r.tail.idle() {
			p = p[plain(p):]
		}
		if r.tail.step(p[0]) {
			r.retain(r.tail.unit)
		}
		p = p[1:]
	}
}

// plain returns the length of the text at the beginning of p that sets nothing: all of it before an escape sequence, without the
// bytes of a character that may be torn.
func plain(p []byte) int {
	n := bytes.IndexByte(p, 0x1b)
	if n < 0 {
		n = len(p)
	}
	return max(0, n-(utf8.UTFMax-1))
}

// retain stores what a dropped sequence has set.
func (r *Buffer) retain(unit []byte) {
	if string(unit) == "\x1bc" || string(unit) == "\x1b[!p" {
		r.modes, r.sgr, r.region = nil, nil, nil
		return
	}
	params, final, ok := csi(unit)
	switch {
	case !ok:
	case (final == 'h' || final == 'l') && len(params) > 1 && params[0] == '?':
		for _, n := range numbers(params[1:]) {
			if r.modes == nil {
				r.modes = map[int]bool{}
			}
			if _, known := r.modes[n]; known || len(r.modes) < 64 {
				r.modes[n] = final == 'h'
			}
		}
	case final == 'm' && (len(params) == 0 || params[0] >= '0' && params[0] <= ';'):
		if n := numbers(params); len(n) == 0 || n[0] == 0 {
			r.sgr = nil
		}
		r.sgr = append(r.sgr, slices.Clone(unit))
		r.sgr = r.sgr[max(0, len(r.sgr)-maxSGR):]
	case final == 'r' && (len(params) == 0 || params[0] != '?'):
		r.region = slices.Clone(unit)
	}
}

// Replay returns what a new terminal must receive to show the screen of one that has received all output.
func (r *Buffer) Replay() []byte {
	out := r.before()
	rest, p := slices.Concat(r.last[r.from:], r.last[:r.from]), r.tail
	p.unit = slices.Clone(p.unit)
	for len(rest) > 0 && !p.idle() { // the sequence that the cut has torn
		p.step(rest[0])
		rest = rest[1:]
	}
	return append(out, Filter(rest)...)
}

// before returns what dropped output has set.
func (r *Buffer) before() (out []byte) {
	for _, n := range slices.Sorted(keys(r.modes)) {
		out = append(out, "\x1b[?"...)
		out = strconv.AppendInt(out, int64(n), 10)
		if r.modes[n] {
			out = append(out, 'h')
		} else {
			out = append(out, 'l')
		}
	}
	out = append(out, r.region...)
	for _, one := range r.sgr {
		out = append(out, one...)
	}
	return out
}

func keys(m map[int]bool) func(func(int) bool) {
	return func(yield func(int) bool) {
		for n := range m {
			if !yield(n) {
				return
			}
		}
	}
}

func numbers(params []byte) (all []int) {
	n, some := 0, false
	for _, c := range params {
		switch {
		case c >= '0' && c <= '9':
			n, some = min(n*10+int(c-'0'), 1<<16), true
		case c == ';' || c == ':':
			all = append(all, n)
			n, some = 0, true
		default:
			return all
		}
	}
	if some {
		all = append(all, n)
	}
	return all
}
