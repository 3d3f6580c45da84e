package validate

import (
	"encoding/binary"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

// matcher is a regular expression of the schema. It is compiled when it is first
// met, to a table with a row for each state: names are short and many, and the
// library's matcher is the larger part of a validation otherwise.
type matcher struct {
	source   string
	compiled func() table
}

func newMatcher(source string) *matcher {
	return &matcher{source, sync.OnceValue(func() table { return tableOf(source) })}
}

func (m *matcher) match(text string) bool {
	t := m.compiled()
	if t.next == nil {
		return t.library.MatchString(text)
	}
	state := uint16(0)
	for i := 0; i < len(text); {
		class, size := t.ascii[text[i]&0x7f], 1
		if text[i] >= utf8.RuneSelf {
			var r rune
			r, size = utf8.DecodeRuneInString(text[i:])
			class = t.class(r)
		}
		if state = t.next[state][class]; state == dead {
			return false
		}
		i += size
	}
	return t.final[state]
}

// table is a deterministic automaton over classes of runes that the expression
// does not tell apart.
type table struct {
	next    [][]uint16
	final   []bool
	ascii   [utf8.RuneSelf]uint8
	begins  []rune  // of the intervals of one class each
	classes []uint8 // of them
	library *regexp.Regexp
}

const (
	dead        = ^uint16(0)
	mostStates  = 4096
	mostClasses = 64
)

func (t *table) class(r rune) uint8 {
	i, found := slices.BinarySearch(t.begins, r)
	if !found {
		i--
	}
	return t.classes[i]
}

// tableOf builds the table, or leaves an expression to the library that has too
// many states or looks at its surroundings.
func tableOf(source string) table {
	library := regexp.MustCompile(source)
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return table{library: library}
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return table{library: library}
	}
	b := builder{prog: prog, states: map[string]uint16{}, table: table{library: library}}
	b.split()
	if !b.build() {
		return table{library: library}
	}
	return b.table
}

// builder makes sets of the program's positions into states.
type builder struct {
	table

	prog    *syntax.Prog
	group   []int    // of each instruction: those of one group read the same runes
	readers []uint32 // an instruction of each group
	reads   [][]bool // by group and class
	samples []rune   // one of each class
	sets    [][]uint32
	states  map[string]uint16
	failed  bool

	seen []int // round in which closure was last at an instruction
	turn int
}

// split finds the classes: intervals of runes that all instructions treat alike.
// A repetition is many instructions that read the same.
func (b *builder) split() {
	begins := []rune{0, utf8.RuneSelf, '\n', '\n' + 1}
	type read struct {
		runes *rune // repetitions share them
		n     int
		op    syntax.InstOp
		fold  uint32
	}
	groups := map[read]int{}
	b.group = make([]int, len(b.prog.Inst))
	for i := range b.prog.Inst {
		inst := &b.prog.Inst[i]
		if !consumes(inst) {
			continue
		}
		key := read{n: len(inst.Rune), op: inst.Op, fold: inst.Arg}
		if key.n > 0 {
			key.runes = &inst.Rune[0]
		}
		g, known := groups[key]
		if !known {
			g = len(groups)
			groups[key] = g
			b.readers = append(b.readers, uint32(i))
			begins = append(begins, edges(inst)...)
		}
		b.group[i] = g
	}
	slices.Sort(begins)
	b.begins = slices.Compact(begins)
	b.reads = make([][]bool, len(b.readers))
	known := map[string]uint8{}
	signature := make([]byte, len(b.readers))
	for _, r := range b.begins {
		for g, i := range b.readers {
			signature[g] = '0'
			if b.prog.Inst[i].MatchRune(r) {
				signature[g] = '1'
			}
		}
		class, ok := known[string(signature)]
		if !ok {
			if len(known) == mostClasses {
				b.failed = true
				return
			}
			class = uint8(len(known)) //nolint:gosec // below mostClasses
			known[string(signature)] = class
			b.samples = append(b.samples, r)
			for g := range b.reads {
				b.reads[g] = append(b.reads[g], signature[g] == '1')
			}
		}
		b.classes = append(b.classes, class)
	}
	for r := range rune(utf8.RuneSelf) {
		b.ascii[r] = b.class(r)
	}
}

// edges are where an instruction's answer may change.
func edges(inst *syntax.Inst) []rune {
	var at []rune
	for j, r := range inst.Rune {
		if len(inst.Rune) == 1 { // alone, it stands for all its cases
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				at = append(at, f, f+1)
			}
			at = append(at, r+1)
		}
		at = append(at, r+rune(j%2)) // pairs, both included
	}
	return slices.DeleteFunc(at, func(r rune) bool { return r > unicode.MaxRune })
}

func consumes(inst *syntax.Inst) bool {
	switch inst.Op { //nolint:exhaustive // the others consume nothing
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}

func (b *builder) build() bool {
	// Before anything is read, the beginning is here and nowhere else.
	b.state(b.closure([]uint32{uint32(b.prog.Start)}, syntax.EmptyBeginText)) //nolint:gosec // small
	for at := 0; at < len(b.sets) && !b.failed; at++ {
		row := make([]uint16, len(b.samples))
		for class := range b.samples {
			row[class] = b.step(b.sets[at], class)
		}
		b.next = append(b.next, row)
	}
	return !b.failed
}

// step reads one rune of a class from a set.
func (b *builder) step(set []uint32, class int) uint16 {
	var to []uint32
	for _, pc := range set {
		inst := &b.prog.Inst[pc]
		switch {
		case inst.Op == syntax.InstMatch:
			to = append(to, pc) // found already, whatever follows
		case consumes(inst) && b.reads[b.group[pc]][class]:
			to = append(to, inst.Out)
		}
	}
	// What is not tied to the beginning may begin anywhere.
	to = append(to, uint32(b.prog.Start)) //nolint:gosec // small
	to = b.closure(to, 0)
	if len(to) == 0 {
		return dead
	}
	return b.state(to)
}

func (b *builder) state(set []uint32) uint16 {
	key := make([]byte, 0, 4*len(set))
	for _, pc := range set {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	if id, ok := b.states[string(key)]; ok {
		return id
	}
	if len(b.sets) >= mostStates {
		b.failed = true
		return dead
	}
	id := uint16(len(b.sets)) //nolint:gosec // below mostStates
	b.states[string(key)] = id
	b.sets = append(b.sets, set)
	final := false
	for _, pc := range b.closure(set, syntax.EmptyEndText) {
		final = final || b.prog.Inst[pc].Op == syntax.InstMatch
	}
	b.final = append(b.final, final)
	return id
}

// closure follows what reads nothing. Assertions about the end are kept: whether
// they hold is known when the text is over.
func (b *builder) closure(from []uint32, holds syntax.EmptyOp) []uint32 {
	if b.turn++; b.seen == nil {
		b.seen = make([]int, len(b.prog.Inst))
	}
	var set []uint32
	var visit func(pc uint32)
	visit = func(pc uint32) {
		if b.seen[pc] == b.turn {
			return
		}
		b.seen[pc] = b.turn
		inst := &b.prog.Inst[pc]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(inst.Out)
			visit(inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			visit(inst.Out)
		case syntax.InstEmptyWidth:
			need := syntax.EmptyOp(inst.Arg) //nolint:gosec // a byte
			switch {
			case need&^(syntax.EmptyBeginText|syntax.EmptyEndText) != 0:
				b.failed = true
			case need&^holds == 0:
				visit(inst.Out)
			case need == syntax.EmptyEndText:
				set = append(set, pc)
			}
		case syntax.InstMatch, syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			set = append(set, pc)
		case syntax.InstFail:
		}
	}
	for _, pc := range from {
		visit(pc)
	}
	slices.Sort(set)
	return set
}
