package validate

import (
	"slices"

	"cuelang.org/go/cue/token"
)

// lines knows where the lines of a file begin, and turns offsets into places and places into CUE's
// positions.
type lines struct {
	path   string
	starts []int
	file   *token.File
}

func linesOf(path string, src []byte) lines {
	l := lines{path: path, starts: []int{0}, file: token.NewFile(path, -1, len(src)+1)}
	l.file.SetLinesForContent(src)
	for i, c := range src {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

func (l lines) spot(offset int) spot {
	line, found := slices.BinarySearch(l.starts, offset)
	if !found {
		line--
	}
	return spot{int32(line + 1), int32(offset - l.starts[line] + 1)} //nolint:gosec // files are far below 2 GiB
}

func (l lines) place(offset int) place { return l.spot(offset).in(l.path) }

// pos returns no position for a line that the file does not have: YAML ends lines at characters that
// CUE does not count.
func (l lines) pos(at spot) token.Pos {
	if at.line < 1 || int(at.line) > len(l.starts) {
		return token.NoPos
	}
	return l.file.Pos(min(l.starts[at.line-1]+int(at.column)-1, l.file.Size()-1), token.NoRelPos)
}
