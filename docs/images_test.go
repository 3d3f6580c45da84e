package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var image = regexp.MustCompile(`!\[([^\]]*)\]\(([^)\s]+)\)`)

const (
	mostImageBytes = 150 << 10
	leastAlt       = 20 // characters that describe a picture to a person who does not see it
)

// TestImages: an image of a guide has a description and a twin in the dark scheme, is small, and no image is left over.
func TestImages(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range pages(t) {
		for _, l := range p.prose {
			for _, match := range image.FindAllStringSubmatch(l.text, -1) {
				if len(match[1]) < leastAlt {
					t.Errorf("%s:%d: the image %s has the description %q", p.path, l.number, match[2], match[1])
				}
				used[filepath.Base(match[2])] = true
			}
		}
	}
	entries, err := os.ReadDir("images")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		light := strings.Replace(e.Name(), "-dark.png", "-light.png", 1)
		if info.Size() > mostImageBytes || !used[light] {
			t.Errorf("%s has %d bytes; a page shows it: %v", e.Name(), info.Size(), used[light])
		}
		if _, err := os.Stat(filepath.Join("images", strings.Replace(light, "-light.png", "-dark.png", 1))); err != nil {
			t.Errorf("%s has no twin in the dark scheme", e.Name())
		}
	}
	if len(entries) == 0 {
		t.Error("there is no image: this test reads nothing")
	}
}
