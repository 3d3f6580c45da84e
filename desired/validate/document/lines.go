package document

import (
	"slices"

	"cuelang.org/go/cue/token"
)

// Lines knows where the lines of a file begin, and turns offsets into places and places into CUE's
// positions.
type Lines struct {
	Path   string
	starts []int
	file   *token.File
}

// LinesOf finds the lines of a file.
func LinesOf(path string, src []byte) Lines {
	l := Lines{Path: path, starts: []int{0}, file: token.NewFile(path, -1, len(src)+1)}
	l.file.SetLinesForContent(src)
	for i, c := range src {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

func (l Lines) spot(offset int) Spot {
	line, found := slices.BinarySearch(l.starts, offset)
	if !found {
		line--
	}
	return Spot{int32(line + 1), int32(offset - l.starts[line] + 1)} //nolint:gosec // files are far below 2 GiB
}

// Place returns the position of an offset.
func (l Lines) Place(offset int) Place { return l.spot(offset).In(l.Path) }

// pos returns no position for a line that the file does not have: YAML ends lines at characters that
// CUE does not count.
func (l Lines) pos(at Spot) token.Pos {
	if at.Line < 1 || int(at.Line) > len(l.starts) {
		return token.NoPos
	}
	return l.file.Pos(min(l.starts[at.Line-1]+int(at.Column)-1, l.file.Size()-1), token.NoRelPos)
}
