package place_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/product/slots/place"
)

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// units reads slots from letters: f free, c claimed, d dirty, q quarantined, and
// a digit for one whose lease "job" ends in as many hours.
func units(text string) (all []place.Unit) {
	for _, r := range text {
		u := place.Unit{Status: map[rune]string{'f': "clean", 'c': "claimed", 'd': "dirty", 'q': "quarantined"}[r]}
		if r >= '1' && r <= '9' {
			u = place.Unit{Status: "claimed", Holder: "job", Ends: noon.Add(time.Duration(r-'0') * time.Hour)}
		}
		all = append(all, u)
	}
	return all
}

func TestExplain(t *testing.T) {
	t.Parallel()
	node := func(name, slots string, change ...func(*place.Candidate)) place.Candidate {
		c := place.Candidate{Name: name, Region: "eu1", Enrolled: true, Reachable: true, Slots: units(slots)}
		for _, f := range change {
			f(&c)
		}
		return c
	}
	cordoned := func(c *place.Candidate) { c.Cordoned = true }
	silent := func(c *place.Candidate) { c.Reachable = false }
	declared := func(c *place.Candidate) { c.Enrolled = false }
	far := func(c *place.Candidate) { c.Region = "us1" }
	nameless := func(c *place.Candidate) { c.Name = "" }
	for name, c := range map[string]struct {
		nodes []place.Candidate
		n     int
		left  string
		fits  string
	}{
		"nothing sells it":       {nil, 1, "", "fits if a node with this SKU is added"},
		"cordoned and free":      {[]place.Candidate{node("n7", "ff", cordoned)}, 2, "cordoned 1", "fits if node n7 is uncordoned"},
		"cordoned and claimed":   {[]place.Candidate{node("n7", "fc", cordoned)}, 2, "cordoned 1", ""},
		"silent":                 {[]place.Candidate{node("n7", "ff", silent)}, 1, "silent 1", "fits once node n7 reports again"},
		"another region":         {[]place.Candidate{node("n7", "ff", far)}, 1, "other_region 1", "fits now in region us1"},
		"another region, silent": {[]place.Candidate{node("n7", "ff", far, silent)}, 1, "other_region 1", ""},
		"not enrolled":           {[]place.Candidate{node("n7", "", declared)}, 1, "not_enrolled 1", "may fit once node n7 has enrolled"},
		"all too small":          {[]place.Candidate{node("a", "ff"), node("b", "fff")}, 4, "too_small 2", "no node has as many GPUs; request at most 3"},
		"being scrubbed":         {[]place.Candidate{node("a", "fdd")}, 2, "scrubbing 1", "fits once a slot of node a is proved clean"},
		"quarantined":            {[]place.Candidate{node("a", "fqq")}, 2, "quarantined 1", "fits if quarantined slots of node a are cleared"},
		"a lease ends":           {[]place.Candidate{node("a", "f32")}, 2, "occupied 1", "fits after 14:00 when lease job ends"},
		"the later lease counts": {[]place.Candidate{node("a", "f32")}, 3, "occupied 1", "fits after 15:00 when lease job ends"},
		"no allocation expires":  {[]place.Candidate{node("a", "cc")}, 1, "occupied 1", "fits if a slot of node a is released"},
		"a remedy without an action, and a sooner one, is first": {
			[]place.Candidate{node("a", "f", cordoned), node("b", "5"), node("c", "3")},
			1, "cordoned 1, occupied 2",
			"fits after 15:00 when lease job ends, fits after 17:00 when lease job ends, fits if node a is uncordoned",
		},
		"no name for who may not know it": {[]place.Candidate{node("a", "f", cordoned, nameless), node("b", "f", cordoned, nameless)}, 1, "cordoned 2", "fits if a node is uncordoned"},
		"it fits":                         {[]place.Candidate{node("a", "ff")}, 2, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left, fits := place.Explain(c.nodes, "eu1", c.n, noon)
			if got := joined(left, fits); got != c.left+" | "+c.fits {
				t.Errorf("got  %s\nwant %s | %s", got, c.left, c.fits)
			}
		})
	}
}

func joined(left []place.Left, fits []place.Fit) string {
	var a, b []string
	for _, l := range left {
		a = append(a, l.Filter+" "+string(rune('0'+l.Nodes)))
	}
	for _, f := range fits {
		b = append(b, f.Text)
	}
	return strings.Join(a, ", ") + " | " + strings.Join(b, ", ")
}
