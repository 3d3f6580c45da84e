package health

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// KernelLog is /dev/kmsg, from the oldest line that the kernel still has.
type KernelLog struct{ fd int }

// OpenKernelLog opens it without ever waiting for a line.
func OpenKernelLog(path string) (*KernelLog, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening kernel log: %w", err)
	}
	return &KernelLog{fd}, nil
}

// Close closes it.
func (k *KernelLog) Close() error { return syscall.Close(k.fd) }

// largestRecord is the kernel's own bound of one read, doubled.
const largestRecord = 16 << 10

// atOnce limits one read. Without it a log that grows faster than the read would block the agent.
const atOnce = 20000

// Read passes each new line to add. lost is true if the kernel has overwritten lines that were not read
// in time.
func (k *KernelLog) Read(add func(sequence uint64, line string)) (lost bool, err error) {
	record := make([]byte, largestRecord)
	for range atOnce {
		n, err := syscall.Read(k.fd, record)
		switch {
		case errors.Is(err, syscall.EAGAIN) || err == nil && n == 0:
			return lost, nil
		case errors.Is(err, syscall.EPIPE): // what was next is overwritten; the next read goes on
			lost = true
			continue
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return lost, fmt.Errorf("reading kernel log: %w", err)
		}
		if sequence, line, ok := parseRecord(string(record[:n])); ok {
			add(sequence, line)
		}
	}
	return lost, nil
}

// The fields before the text of a record: priority, sequence, time, flags, and others of later kernels.
const (
	recordFields  = 4
	facilityShift = 3   // of the priority: level below, facility above
	wholeLine     = "-" // the flag of a record that is no fragment of another
)

// parseRecord reads "6,1234,5678901,-;text". It leaves out the lines that follow with the properties of a
// device. The line is empty if a program wrote it, or if it is a fragment.
func parseRecord(record string) (sequence uint64, line string, ok bool) {
	head, text, found := strings.Cut(record, ";")
	fields := strings.Split(head, ",")
	if !found || len(fields) < recordFields {
		return 0, "", false
	}
	sequence, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0, "", false
	}
	priority, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil || priority>>facilityShift != 0 || fields[3] != wholeLine {
		return sequence, "", true
	}
	line, _, _ = strings.Cut(text, "\n")
	return sequence, line, true
}

// ReadInto adds what is new to the ledger.
func (k *KernelLog) ReadInto(l *Ledger, now time.Time) (changed, lost bool, err error) {
	lost, err = k.Read(func(sequence uint64, line string) {
		if l.Add(sequence, line, now) {
			changed = true
		}
	})
	return changed, lost, err
}
