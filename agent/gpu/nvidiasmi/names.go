package nvidiasmi

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// WithoutNames removes all of processes but their numbers and types from what nvidia-smi -q -x printed. A tenant
// chooses the name of its process, and the tool may not escape it, not even a line break.
//
// The tool prints one tag a line and one list for each GPU. A name cannot remove the end of its own list. A name that
// ends the list earlier leaves a second end, which is an error: it would need a second beginning, or another GPU, and
// the number of GPUs is printed before all names.
func WithoutNames(text []byte) ([]byte, error) {
	l := lists{out: make([]byte, 0, len(text))}
	for line := range bytes.Lines(text) {
		word := bytes.TrimSpace(line)
		if l.within {
			l.process(word)
			continue
		}
		if err := l.outside(word); err != nil {
			return nil, err
		}
		l.out = append(l.out, line...)
	}
	return l.out, nil
}

// lists is the state between two lines.
type lists struct {
	out            []byte
	within, listed bool // in the list of a GPU; it had one
	attached, gpus int
	pid            []byte
}

func (l *lists) outside(word []byte) error {
	if m := attachedLine.FindSubmatch(word); m != nil && l.gpus == 0 {
		l.attached, _ = strconv.Atoi(string(m[1])) // at most four digits
	}
	switch {
	case bytes.HasPrefix(word, []byte("<gpu ")), bytes.Equal(word, []byte("<gpu>")):
		if l.gpus++; l.gpus > l.attached {
			return fmt.Errorf("%d GPUs are attached, more are listed", l.attached)
		}
		l.listed = false
	case bytes.Equal(word, listBegins) && l.listed, bytes.Equal(word, listEnds):
		return errors.New("a GPU has two lists of processes")
	case bytes.Equal(word, listBegins):
		l.within, l.listed, l.pid = true, true, nil
	}
	return nil
}

func (l *lists) process(word []byte) {
	if bytes.Equal(word, listEnds) {
		l.out, l.within = append(append(l.out, listEnds...), '\n'), false
	} else if pidLine.Match(word) {
		l.pid = word
	} else if typeLine.Match(word) && l.pid != nil {
		l.out = fmt.Appendf(l.out, "<process_info>\n%s\n%s\n</process_info>\n", l.pid, word)
		l.pid = nil
	}
}

var (
	listBegins, listEnds = []byte("<processes>"), []byte("</processes>")
	attachedLine         = regexp.MustCompile(`^<attached_gpus>([0-9]{1,4})</attached_gpus>$`)
	pidLine              = regexp.MustCompile(`^<pid>[0-9]{1,10}</pid>$`)
	typeLine             = regexp.MustCompile(`^<type>[CGM+]{1,8}</type>$`)
)
