package logs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

const (
	// maxMessage limits the beginning of a message that is stored. CleanLine cuts it again.
	maxMessage = 4 << 14
	// maxValue is above any field of journald, whose limit for a message is 48 MiB by default.
	maxValue = 768 << 20
)

// ReadExport reads the export format of journald from r, and calls each with the time and the message of every entry. The memory
// is bounded, whatever the length of a field.
func ReadExport(r io.Reader, each func(at time.Time, message string) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var at time.Time
	var message string
	for {
		name, value, err := field(in)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading the journal: %w", err)
		case name == "MESSAGE":
			message = value
		case name == "__REALTIME_TIMESTAMP":
			if us, err := strconv.ParseInt(value, 10, 64); err == nil {
				at = time.UnixMicro(us)
			}
		case name == "" && !at.IsZero():
			if err := each(at, message); err != nil {
				return err
			}
			at, message = time.Time{}, ""
		}
	}
}

// field reads NAME=value, or NAME with the length of its value and the value. An empty name is the end of an entry.
func field(in *bufio.Reader) (name, value string, err error) {
	line, err := bounded(in)
	if err != nil {
		return "", "", err
	}
	name, value, text := strings.Cut(line, "=")
	if text || name == "" {
		return name, value, nil
	}
	var length uint64
	if err := binary.Read(in, binary.LittleEndian, &length); err != nil {
		return "", "", fmt.Errorf("length of %s: %w", name[:min(len(name), 32)], err)
	}
	if length > maxValue {
		return "", "", fmt.Errorf("a field of %d bytes", length)
	}
	head := make([]byte, min(length, maxMessage))
	if _, err := io.ReadFull(in, head); err != nil {
		return "", "", err
	}
	rest := int64(length) - int64(len(head)) + 1 // below maxValue; one newline follows
	if _, err := io.CopyN(io.Discard, in, rest); err != nil {
		return "", "", err
	}
	return name, string(head), nil
}

// bounded reads a line, and returns its beginning.
func bounded(in *bufio.Reader) (string, error) {
	var head []byte
	for {
		part, more, err := in.ReadLine()
		if err != nil {
			return "", err
		}
		head = append(head, part[:min(len(part), maxMessage-len(head))]...)
		if !more {
			return string(head), nil
		}
	}
}
