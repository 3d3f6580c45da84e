package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// listName is the file that makes a folder of parts an object.
const listName = "parts"

// listFormat begins a list: the format, the handle of the upload, and the number of parts. A line for each part has its
// number, size and tag.
const listFormat = "gpuaas-parts-1"

// partList are the parts of an object in their sequence.
type partList struct {
	handle string
	parts  []blob.Part
}

func (l partList) size() (sum int64) {
	for _, p := range l.parts {
		sum += p.Size
	}
	return sum
}

// compare returns ErrPart if an upload was completed with other parts.
func (l partList) compare(parts []blob.Part) error {
	if !slices.EqualFunc(l.parts, parts, blob.Part.Same) {
		return fmt.Errorf("completed with other parts: %w", blob.ErrPart)
	}
	return nil
}

// writeList makes no folder: another call may have moved it to its object.
func (s *Store) writeList(ctx context.Context, dir string, l partList) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, listFormat, l.handle, len(l.parts))
	for _, p := range l.parts {
		fmt.Fprintln(&b, p.Number, p.Size, p.Tag)
	}
	tmp, err := s.write(ctx, &b, int64(b.Len()))
	if err != nil {
		return err
	}
	if err := s.root.Rename(tmp.name, path.Join(dir, listName)); err != nil {
		return errors.Join(err, s.remove(tmp.name))
	}
	return s.sync(dir)
}

func (s *Store) readList(dir string) (partList, error) {
	text, err := s.root.ReadFile(path.Join(dir, listName))
	if err != nil {
		return partList{}, err
	}
	damaged := fmt.Errorf("the list of parts in %s is damaged", dir)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	head := strings.Fields(lines[0])
	if len(head) != 3 || head[0] != listFormat || head[2] != strconv.Itoa(len(lines)-1) {
		return partList{}, damaged
	}
	l := partList{handle: head[1], parts: make([]blob.Part, 0, len(lines)-1)}
	for _, line := range lines[1:] {
		p, err := parsePart(line)
		if err != nil {
			return partList{}, damaged
		}
		l.parts = append(l.parts, p)
	}
	return l, nil
}

func parsePart(line string) (p blob.Part, err error) {
	number, rest, _ := strings.Cut(line, " ")
	size, tag, _ := strings.Cut(rest, " ")
	p.Tag = tag
	if p.Number, err = strconv.Atoi(number); err != nil {
		return p, err
	}
	p.Size, err = strconv.ParseInt(size, 10, 64)
	return p, err
}
