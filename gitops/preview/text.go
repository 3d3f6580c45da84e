package preview

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/gpuaas/gpuaas/internal/money"
)

// symbols marks each step with one character, next to the text.
var symbols = map[Action]string{Create: "+", Modify: "~", Delete: "-", Adopt: "="}

// Text writes the plan for a terminal. It ends with the summary.
func (p Plan) Text(w io.Writer) error {
	var t strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&t, format+"\n", args...) }
	for _, s := range p.Steps {
		line("%s %s %s  %s", symbols[s.Action], s.Action, clean(s.Label()), clean(s.Place.String()))
		for _, f := range s.Fields {
			line("    %s: %s", clean(f.Path), f.change())
		}
	}
	if left := p.left(); left > 0 {
		line("  … and %d more", left)
	}
	for _, f := range p.Findings {
		line("! invalid: %s", clean(f.String()))
	}
	for _, wait := range p.Waits {
		line("! waits (%s): %s", wait.Reason, clean(wait.Message))
		for _, o := range wait.Objects {
			line("    %s", clean(o))
		}
	}
	for _, d := range p.Blast.Drains {
		line("  drains: Node/%s with %s in %s", clean(d.Node), counted(d.Allocations, "allocation"), counted(d.Slots, "slot"))
	}
	for _, o := range p.Blast.OverCaps {
		line("  over the cap: %s has %d of %d (%s)", clean(o.who()), o.Used, o.Limit, clean(o.Key))
	}
	for _, m := range p.Money {
		m.text(line)
	}
	line("%s", p.Summary)
	_, err := io.WriteString(w, t.String())
	return err
}

func (m MoneyChange) text(line func(string, ...any)) {
	if m.CapacityBefore != m.CapacityAfter {
		line("  capacity: %s/h → %s/h", money.Format(m.Currency, m.CapacityBefore), money.Format(m.Currency, m.CapacityAfter))
	}
	if m.BurnBefore != m.BurnAfter {
		line("  burn of all tenants: %s/h → %s/h", money.Format(m.Currency, m.BurnBefore), money.Format(m.Currency, m.BurnAfter))
	}
	for _, t := range m.Tenants {
		line("    %s: %s/h → %s/h, runway %s → %s", clean(t.Name), money.Format(m.Currency, t.BurnBefore), money.Format(m.Currency, t.BurnAfter),
			lasting(t.RunwayBefore), lasting(t.RunwayAfter))
	}
}

// left returns the number of steps that are counted and not listed.
func (p Plan) left() int { return p.Creates + p.Changes + p.Deletes + p.Adopts - len(p.Steps) }

func (f Field) change() string {
	switch {
	case f.From == "":
		return clean(f.To)
	case f.To == "":
		return clean(f.From) + " → nothing"
	}
	return clean(f.From) + " → " + clean(f.To)
}

func (o OverCap) who() string {
	if o.Name == "" {
		return o.Scope
	}
	level, _, _ := strings.Cut(o.Scope, ":")
	return level + " " + o.Name
}

// lasting prints a runway in the two units that people plan in.
func lasting(minutes *int64) string {
	const day = 24 * 60
	switch {
	case minutes == nil:
		return "without end"
	case *minutes >= day:
		return fmt.Sprintf("%d d %d h", *minutes/day, *minutes%day/60)
	}
	return fmt.Sprintf("%d h %d min", *minutes/60, *minutes%60)
}

// longest limits the displayed bytes of one text of another author.
const longest = 200

// clean is a text that cannot repaint whatever shows it: what is not printable is
// written as its number, in one line.
func clean(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > longest {
			b.WriteString("…")
			break
		}
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}
