package layout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const head = "# E2E_UPDATE=1 go test -tags 'e2e nomsgpack' ./e2e -run TestPortalLayout writes this file.\n" +
	"# Boxes by state of the screen; at 320 px, and of success at 768 and 1280 px: left, width, gap, height.\n"

// Format writes the rows of a screen by state.
func Format(states []string, of map[string][]Row) string {
	var text strings.Builder
	text.WriteString(head)
	for _, state := range states {
		rows := of[state]
		if rows == nil {
			continue
		}
		fmt.Fprintf(&text, "\n%s\n", state)
		for _, r := range rows {
			name := strings.Repeat("  ", r[0].Depth+1) + r[0].Label
			if n := r[0].Controls; n > 0 {
				name += fmt.Sprintf(" (%d)", n)
			}
			fmt.Fprintf(&text, "%-56s", name)
			for _, b := range r {
				fmt.Fprintf(&text, " | %4d %4d %3s %4d", b.X, b.W, gapText(b.Gap), b.H)
			}
			text.WriteString("\n")
		}
	}
	return text.String()
}

func gapText(gap int) string {
	if gap == SameRow {
		return "-"
	}
	return strconv.Itoa(gap)
}

// Parse is the reverse of Format.
func Parse(text string) (of map[string][]Row, err error) {
	of = map[string][]Row{}
	state := ""
	for n, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, " "):
			state = line
			of[state] = []Row{}
		default:
			row, err := parseRow(line)
			if err == nil && state == "" {
				err = errors.New("a box without a state")
			}
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n+1, err)
			}
			of[state] = append(of[state], row)
		}
	}
	return of, nil
}

func parseRow(line string) (row Row, err error) {
	cells := strings.Split(line, "|")
	if len(cells) == 1 || len(cells) > len(sizes)+1 {
		return row, fmt.Errorf("%d cells, want 1 to %d", len(cells)-1, len(sizes))
	}
	name := strings.TrimRight(cells[0], " ")
	label := strings.TrimLeft(name, " ")
	b := Box{Label: label, Depth: (len(name)-len(label))/2 - 1}
	if before, count, found := cutLast(label, " ("); found {
		b.Label = before
		if b.Controls, err = strconv.Atoi(strings.TrimSuffix(count, ")")); err != nil {
			return row, fmt.Errorf("the number of controls: %w", err)
		}
	}
	for _, cell := range cells[1:] {
		if err := b.place(cell); err != nil {
			return row, err
		}
		row = append(row, b)
	}
	return row, nil
}

// place reads the numbers of a cell.
func (b *Box) place(cell string) (err error) {
	numbers := strings.Fields(strings.Replace(cell, " - ", " "+strconv.Itoa(SameRow)+" ", 1))
	into := []*int{&b.X, &b.W, &b.Gap, &b.H}
	if len(numbers) != len(into) {
		return fmt.Errorf("%q has not four numbers", cell)
	}
	for n, number := range numbers {
		if *into[n], err = strconv.Atoi(number); err != nil {
			return fmt.Errorf("%q: %w", cell, err)
		}
	}
	return nil
}

// cutLast cuts a text around the last separator, where it ends with a parenthesis.
func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 || !strings.HasSuffix(text, ")") {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// Check compares the states of a screen with its snapshot, which is a text of Format.
func Check(snapshot string, states []string, of map[string][]Row) (faults []string) {
	want, err := Parse(snapshot)
	if err != nil {
		return []string{err.Error()}
	}
	for _, state := range states {
		stored, known := want[state]
		got, measured := of[state]
		switch {
		case known != measured:
			faults = append(faults, fmt.Sprintf("%s: stored %v, measured %v", state, known, measured))
		default:
			for _, f := range Compare(stored, got) {
				faults = append(faults, state+", "+f)
			}
		}
	}
	for state := range want {
		if !slices.Contains(states, state) {
			faults = append(faults, "there is no state "+state)
		}
	}
	return faults
}
