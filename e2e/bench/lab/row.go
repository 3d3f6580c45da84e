package lab

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Row is one line of the result. Ratios are medians over pairs; Min and Max are
// the smallest and largest pair.
type Row struct {
	ID    string  `json:"id"`
	Path  string  `json:"path"`
	Unit  string  `json:"unit"`
	Ours  float64 `json:"ours"`
	Peer  float64 `json:"peer"` // the result of the peer, or the limit
	Ratio float64 `json:"ratio"`
	Goal  string  `json:"goal"`
	Met   *bool   `json:"met"` // null for a row without a goal
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	// CPU seconds of all processes of a side, for each operation.
	CPUOurs float64 `json:"cpu_ours_s"`
	CPUPeer float64 `json:"cpu_peer_s"`
	Skipped string  `json:"skipped,omitempty"`
	Note    string  `json:"note,omitempty"`
}

// AtMost sets the goal that the ratio is at most limit.
func (r Row) AtMost(limit float64) Row {
	r.Goal, r.Met = fmt.Sprintf("≤ %g", limit), new(r.Ratio <= limit)
	return r
}

func (r Row) AtLeast(limit float64) Row {
	r.Goal, r.Met = fmt.Sprintf("≥ %g", limit), new(r.Ratio >= limit)
	return r
}

func WriteTable(to io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| id\t| path\t| ours\t| peer or limit\t| ratio\t| goal\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, r := range rows {
		if r.Skipped != "" {
			fmt.Fprintf(w, "| %s\t| %s\t| skipped\t| %s\t|\t|\t|\n", r.ID, r.Path, r.Skipped)
			continue
		}
		ratio := Number(r.Ratio)
		if r.Min != r.Max {
			ratio += fmt.Sprintf(" (%s-%s)", Number(r.Min), Number(r.Max))
		}
		verdict := r.Goal
		if r.Met != nil {
			verdict += map[bool]string{true: " met", false: " MISSED"}[*r.Met]
		}
		fmt.Fprintf(w, "| %s\t| %s\t| %s%s\t| %s%s\t| %s\t| %s\t|\n", r.ID, r.Path, Number(r.Ours), r.Unit, Number(r.Peer), r.Unit, ratio, verdict)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	for _, r := range rows {
		if r.CPUOurs > 0 || r.Note != "" {
			fmt.Fprintln(to, strings.TrimSpace(fmt.Sprintf("%s: %s%s", r.ID, cpuText(r), r.Note)))
		}
	}
	return nil
}

func cpuText(r Row) string {
	if r.CPUOurs == 0 {
		return ""
	}
	text := "CPU of all processes per operation " + Short(r.CPUOurs)
	if r.CPUPeer > 0 {
		text += " against " + Short(r.CPUPeer)
	}
	return text + ". "
}

func Short(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond).String()
}

func Number(f float64) string {
	switch a := math.Abs(f); {
	case a >= 100 || f == math.Trunc(f):
		return fmt.Sprintf("%.0f", f)
	case a >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}

func Median(list []float64) float64 { return Quantile(list, 0.5) }

// Quantile returns the nearest rank, so the result is always a measured value.
func Quantile(list []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}
