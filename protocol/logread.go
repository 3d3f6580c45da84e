package protocol

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// maxItem limits an item of a node: the JSON of a line needs at most six bytes for each byte.
const maxItem = 8 * MaxLogLine

// ReadLog calls each with the items of a stream until it ends. A node is not trusted: its lines are cleaned again.
func ReadLog(from io.Reader, each func(LogItem) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), maxItem)
	for lines.Scan() {
		var item LogItem
		if err := json.Unmarshal(lines.Bytes(), &item); err != nil {
			return fmt.Errorf("reading a line of a log: %w", err)
		}
		item.Text, item.End = CleanLine(item.Text), CleanLine(item.End)
		if err := each(item); err != nil {
			return err
		}
		if item.End != "" {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading a log: %w", err)
	}
	return io.ErrUnexpectedEOF
}
