package helper

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

const (
	// maxRequest is above the size of the largest envelope in base64.
	maxRequest = 256 << 10
	// maxReply is above the size of a report of 256 devices, or of a result for each of them.
	maxReply = 4 << 20
	// frameWithin limits a frame from its first byte to its last. A peer that sends more slowly counts
	// as dead.
	frameWithin = 5 * time.Second
)

// writeFrame sends v with its length before it.
func writeFrame(c net.Conn, v any, limit int) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding frame: %w", err)
	}
	if len(text) > limit {
		return fmt.Errorf("a frame of %d bytes, at most %d", len(text), limit)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text))) //nolint:gosec // below limit
	if err := c.SetWriteDeadline(wall().Add(frameWithin)); err != nil {
		return fmt.Errorf("sending frame: %w", err)
	}
	if _, err := c.Write(append(frame, text...)); err != nil {
		return fmt.Errorf("sending frame: %w", err)
	}
	return nil
}

// readFrame reads one frame. It waits for the first byte for the duration first,
// and for ever when that is zero.
func readFrame(c net.Conn, limit int, first time.Duration) ([]byte, error) {
	var deadline time.Time
	if first > 0 {
		deadline = wall().Add(first)
	}
	var size [4]byte
	if err := readBy(c, size[:1], deadline); err != nil {
		return nil, err
	}
	deadline = wall().Add(frameWithin)
	if err := readBy(c, size[1:], deadline); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if n == 0 || n > limit {
		return nil, fmt.Errorf("a frame of %d bytes, at most %d", n, limit)
	}
	text := make([]byte, n)
	return text, readBy(c, text, deadline)
}

func readBy(c net.Conn, into []byte, deadline time.Time) error {
	if err := c.SetReadDeadline(deadline); err != nil {
		return fmt.Errorf("reading frame: %w", err)
	}
	if _, err := io.ReadFull(c, into); err != nil {
		return fmt.Errorf("reading frame: %w", err)
	}
	return nil
}

// wall returns the time of the system. The kernel compares the deadlines of sockets with it, also when a
// test injects another clock.
func wall() time.Time { return clock.Clock{}.Now() }
