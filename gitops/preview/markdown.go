package preview

import (
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaas/internal/money"
)

// A GitHub comment may contain 65,536 characters. The marker and the forge's own additions need the
// difference.
const maxComment = 60_000

// Markdown formats the plan as one comment of a pull request, of at most maxComment bytes. Texts of
// other authors are written as code spans, in which they cannot create links or mentions or end a
// table.
func (p Plan) Markdown() string {
	var head, tail strings.Builder
	fmt.Fprintf(&head, "### Plan of %s\n\n**%s**\n\n", code(p.sourceName()), p.Summary)
	p.verdict(&head)
	p.table(&head)
	p.effects(&head)
	fmt.Fprintf(&tail, "\n<sub>plan hash %s · commit %s · base %s</sub>\n", code(short(p.Hash)), code(short(p.Commit)), code(short(p.Base)))
	top := head.String()
	if over := len(top) + tail.Len() - maxComment; over > 0 {
		top = cut(top, len(top)-over)
	}
	return top + p.details(maxComment-len(top)-tail.Len()) + tail.String()
}

func (p Plan) sourceName() string {
	if p.Source == "" {
		return "objects that the API owns"
	}
	return p.Source
}

// maxRows bounds each list of a comment; the API has them all.
const maxRows = 50

func (p Plan) verdict(b *strings.Builder) {
	if len(p.Findings) > 0 {
		b.WriteString("**It cannot be applied:**\n\n")
		for _, f := range p.Findings[:min(len(p.Findings), maxRows)] {
			fmt.Fprintf(b, "- %s\n", code(f.String()))
		}
		more(b, len(p.Findings))
	}
	if len(p.Waits) > 0 {
		b.WriteString("**It waits for approval:**\n\n")
		for _, w := range p.Waits {
			fmt.Fprintf(b, "- %s: %s", code(w.Reason), clean(w.Message)) // our own text
			for i, o := range w.Objects[:min(len(w.Objects), maxRows)] {
				b.WriteString([]string{" — ", ", "}[min(i, 1)] + code(o))
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
}

func more(b *strings.Builder, n int) {
	if n > maxRows {
		fmt.Fprintf(b, "- … and %d more\n", n-maxRows)
	}
	b.WriteString("\n")
}

func (p Plan) table(b *strings.Builder) {
	fmt.Fprintf(b, "| create | change | delete | adopt | nodes | agents | allocations | projects | tenants |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	fmt.Fprintf(b, "| %d | %d | %d | %d | %d | %d | %d | %d | %d |\n\n", p.Creates, p.Changes, p.Deletes, p.Adopts,
		p.Blast.Nodes, p.Blast.Agents, p.Blast.Allocations, p.Blast.Projects, p.Blast.Tenants)
}

func (p Plan) effects(b *strings.Builder) {
	for _, d := range p.Blast.Drains[:min(len(p.Blast.Drains), maxRows)] {
		fmt.Fprintf(b, "- %s drains: %s in %s\n", code("Node/"+d.Node), counted(d.Allocations, "allocation"), counted(d.Slots, "slot"))
	}
	for _, o := range p.Blast.OverCaps[:min(len(p.Blast.OverCaps), maxRows)] {
		fmt.Fprintf(b, "- %s has %d and the cap %s becomes %d: existing allocations stay, new ones are rejected\n", code(o.who()), o.Used, code(o.Key), o.Limit)
	}
	more(b, max(len(p.Blast.Drains), len(p.Blast.OverCaps)))
	for _, m := range p.Money {
		m.markdown(b)
	}
}

func (m MoneyChange) markdown(b *strings.Builder) {
	if m.CapacityBefore == m.CapacityAfter && m.BurnBefore == m.BurnAfter && len(m.Tenants) == 0 {
		return
	}
	b.WriteString("| per hour | before | after | change | runway |\n|:--|--:|--:|--:|:--|\n")
	row := func(name string, before, after money.Minor, runway string) {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", name, money.Format(m.Currency, before), money.Format(m.Currency, after), signed(m.Currency, before, after), runway)
	}
	row("capacity", m.CapacityBefore, m.CapacityAfter, "")
	row("burn of all tenants", m.BurnBefore, m.BurnAfter, "")
	for _, t := range m.Tenants[:min(len(m.Tenants), maxRows)] {
		row(cell(t.Name), t.BurnBefore, t.BurnAfter, lasting(t.RunwayBefore)+" → "+lasting(t.RunwayAfter))
	}
	if left := len(m.Tenants) - maxRows; left > 0 {
		fmt.Fprintf(b, "| … and %d more | | | | |\n", left)
	}
	b.WriteString("\n")
}

// details formats as many steps as fit into the remaining bytes.
func (p Plan) details(room int) string {
	const open, end = "<details><summary>Steps</summary>\n\n", "\n</details>\n"
	var b strings.Builder
	b.WriteString(open)
	shown, total := 0, p.Creates+p.Changes+p.Deletes+p.Adopts
	room -= len(end) + len("- … and 1000000 more\n")
	for _, s := range p.Steps {
		text := s.markdown()
		if b.Len()+len(text) > room {
			break
		}
		b.WriteString(text)
		shown++
	}
	if total == 0 || room < len(open) {
		return ""
	}
	if shown < total {
		fmt.Fprintf(&b, "- … and %d more\n", total-shown)
	}
	return b.String() + end
}

// maxFields limits the listed fields of one object.
const maxFields = 20

func (s Step) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- %s **%s** %s at %s\n", symbol(s.Action), s.Action, code(s.Label()), code(s.Place.String()))
	for _, f := range s.Fields[:min(len(s.Fields), maxFields)] {
		fmt.Fprintf(&b, "  - %s: %s\n", code(f.Path), code(f.change()))
	}
	if left := len(s.Fields) - maxFields; left > 0 {
		fmt.Fprintf(&b, "  - … and %d more\n", left)
	}
	return b.String()
}

// symbol escapes the symbol, which Markdown would otherwise read as a list or a heading.
func symbol(a Action) string { return `\` + symbols[a] }

// code is a text in a code span: its own backticks would end it.
func code(text string) string {
	text = strings.ReplaceAll(clean(text), "`", "'")
	if strings.TrimSpace(text) == "" {
		return "–"
	}
	return "`" + text + "`"
}

// cell is code within a table, where a bar ends the cell even in a code span.
func cell(text string) string { return strings.ReplaceAll(code(text), "|", `\|`) }

// cut ends a text at a line.
func cut(text string, most int) string {
	text = text[:max(most-1, 0)]
	return text[:strings.LastIndexByte(text, '\n')+1] + "\n"
}
