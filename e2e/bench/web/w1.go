package web

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/web"
)

var named = regexp.MustCompile(`/portal/(assets/[^"]+)`)

// Sizes counts the bytes of the embedded portal, gzipped.
func Sizes(context.Context, *lab.Lab) ([]lab.Row, error) {
	p, err := web.NewPortal()
	if err != nil {
		return nil, fmt.Errorf("reading the portal: %w", err)
	}
	if !p.Built() {
		return nil, errors.New("the portal is not built")
	}
	var scripts, styles, largest, terminal float64
	first := map[string]bool{}
	for _, m := range named.FindAllSubmatch(p.Page(""), -1) {
		name := string(m[1])
		first[name] = true
		size := float64(len(p.Assets[name].Encodings["gzip"])) / 1000
		if strings.HasSuffix(name, ".js") {
			scripts += size
		} else {
			styles += size
		}
	}
	for name, asset := range p.Assets {
		size := float64(len(asset.Encodings["gzip"])) / 1000
		switch {
		case strings.HasPrefix(name, "assets/terminal-"):
			terminal = size
		case !first[name]:
			largest = max(largest, size)
		}
	}
	return []lab.Row{
		limited("W1", "scripts of the first load of the portal, gzipped", " kB", scripts, 200),
		limited("W1-styles", "styles of it", " kB", styles, 30),
		limited("W1-part", "the largest part of a screen, without the terminal", " kB", largest, 60),
		limited("W1-terminal", "the terminal", " kB", terminal, 90),
	}, nil
}

// limited is a row with a value and its limit.
func limited(id, path, unit string, value, limit float64) lab.Row {
	share := value / limit
	return lab.Row{
		ID: id, Path: path, Unit: unit, Ours: value, Peer: limit, Ratio: share, Min: share, Max: share,
		Goal: fmt.Sprintf("≤ %g%s", limit, unit), Met: new(value <= limit),
	}
}
