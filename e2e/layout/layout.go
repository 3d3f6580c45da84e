// Package layout compares where the portal places the parts of a screen with a stored snapshot. A browser reads the boxes
// of headings, sections, forms, tables and states; page.js has that part. The package compares no pixels: fonts differ
// between computers, so heights have a wide tolerance, and only positions and widths a narrow one.
package layout

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// Page is the script of the page: it answers the calls of the portal from window.replies, opens screens, and measures them.
//
//go:embed page.js
var Page string

// Box is a part of a screen at one width of the window, in pixels of CSS.
type Box struct {
	Label    string // kind and name
	Depth    int    // in how many other boxes it is
	Controls int    // links, buttons and fields in it, and in no box of it
	X, W, H  int
	// Gap is the distance to the element before it, or to the top of the box around it. It is SameRow for a box in the row
	// of the element before it.
	Gap int
}

// SameRow is the gap of a box in the row of the element before it.
const SameRow = -1

// Measured contains the boxes and faults that the browser has found at one width.
type Measured struct {
	Boxes []Box
	// Faults break a rule that needs no snapshot: a part lies over another one or outside of the page, or its text is cut.
	Faults []string
}

// Size is a window.
type Size struct{ Width, Height int }

var sizes = []Size{{320, 256}, {768, 1024}, {1280, 1024}}

// SizesOf are the windows in which a screen is measured in a state. The first one is a window of 1280 × 1024 pixels at a
// zoom of 400 %. A screen that fits into it fits into wider ones, in which only a successful one has other rows.
func SizesOf(state string) []Size {
	if state == "success" {
		return sizes
	}
	return sizes[:1]
}

// Row is a box at each of the sizes of its state.
type Row []Box

// Rows joins what was measured of one screen in one state. All sizes have the same boxes in the same sequence: the portal
// hides nothing in a small window.
func Rows(at []Measured) (rows []Row, faults []string) {
	for i, m := range at {
		for _, f := range m.Faults {
			faults = append(faults, fmt.Sprintf("%d px: %s", sizes[i].Width, f))
		}
	}
	for i, m := range at[1:] {
		if !slices.Equal(labels(m.Boxes), labels(at[0].Boxes)) {
			return nil, append(faults, fmt.Sprintf("%d px has the boxes %q, and %d px has %q", sizes[0].Width, labels(at[0].Boxes), sizes[i+1].Width, labels(m.Boxes)))
		}
	}
	rows = make([]Row, len(at[0].Boxes))
	for _, m := range at {
		for n, b := range m.Boxes {
			rows[n] = append(rows[n], b)
		}
	}
	return rows, faults
}

func labels(boxes []Box) (all []string) {
	for _, b := range boxes {
		all = append(all, b.Label)
	}
	return all
}

// The tolerances in pixels. A height depends on the font: lines are higher, and break elsewhere.
const (
	near   = 4
	higher = 24
	part   = 3 // a third of the height
)

// Compare returns the differences between the stored and the measured rows of a state.
func Compare(want, got []Row) (faults []string) {
	if len(want) != len(got) {
		return []string{fmt.Sprintf("%d boxes %q, stored are %d %q", len(got), labelsOf(got), len(want), labelsOf(want))}
	}
	for n := range want {
		if len(want[n]) != len(got[n]) {
			return []string{fmt.Sprintf("measured at %d sizes, stored are %d", len(got[n]), len(want[n]))}
		}
		for i := range want[n] {
			if what := differs(want[n][i], got[n][i]); what != "" {
				faults = append(faults, fmt.Sprintf("%d px: %s: %s", sizes[i].Width, got[n][i].Label, what))
			}
		}
	}
	return faults
}

func labelsOf(rows []Row) (all []string) {
	for _, r := range rows {
		all = append(all, r[0].Label)
	}
	return all
}

func differs(want, got Box) string {
	switch {
	case want.Label != got.Label || want.Depth != got.Depth:
		return fmt.Sprintf("is in the place of %s", want.Label)
	case want.Controls != got.Controls:
		return fmt.Sprintf("has %d controls, stored are %d", got.Controls, want.Controls)
	case apart(want.X, got.X, want.reach(want.Gap == SameRow)) || apart(want.W, got.W, want.reach(want.isText())):
		return fmt.Sprintf("begins at %d and is %d wide, stored are %d and %d", got.X, got.W, want.X, want.W)
	case (want.Gap == SameRow) != (got.Gap == SameRow) || apart(want.Gap, got.Gap, near):
		return fmt.Sprintf("has the gap %s, stored is %s", gapText(got.Gap), gapText(want.Gap))
	case apart(want.H, got.H, max(higher, want.H/part)):
		return fmt.Sprintf("is %d high, stored is %d", got.H, want.H)
	}
	return ""
}

// isText reports whether the box is as wide as its text.
func (b Box) isText() bool {
	return strings.HasPrefix(b.Label, "h1") || strings.HasPrefix(b.Label, "details")
}

// reach is the tolerance of a position or width: near, or one for another font where a text decides.
func (b Box) reach(ofText bool) int {
	if ofText {
		return max(higher, (b.X+b.W)/part)
	}
	return near
}

func apart(a, b, most int) bool { return max(a-b, b-a) > most }
