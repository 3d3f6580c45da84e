package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaas/agent/logs"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/protocol"
)

// logFile is the journal of a simulated node. Programs of the node append lines to it.
func logFile(stateDir string) string { return filepath.Join(stateDir, "journal.jsonl") }

// logLine is a line of the journal. User is the account that it is about.
type logLine struct {
	At     time.Time          `json:"at"`
	Source protocol.LogSource `json:"source"`
	User   string             `json:"user,omitempty"`
	Text   string             `json:"text"`
}

// maxLog is the size after which the journal begins again.
const maxLog = 8 << 20

// Log appends a line to the journal of the simulated node. user is the account that the line is about, or empty.
func Log(stateDir string, source protocol.LogSource, user, text string) error {
	line, err := json.Marshal(logLine{clock.Clock{}.Now().UTC().Truncate(time.Microsecond), source, user, text})
	if err != nil {
		return fmt.Errorf("encoding a line of the journal: %w", err)
	}
	path := logFile(stateDir)
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("beginning the journal again: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	_, err = f.Write(append(line, '\n')) // one write, so that lines of several processes do not mix
	return errors.Join(err, f.Close())
}

// startLogs writes the first lines of the services of an operating system.
func startLogs(stateDir string) error {
	if _, err := os.Stat(logFile(stateDir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for source, text := range map[protocol.LogSource]string{
		protocol.LogAgent: "started", protocol.LogHelper: "started", protocol.LogSSHD: "Server listening on loopback", protocol.LogKernel: "Linux version, simulated",
		protocol.LogFabricManager: "the simulated fabric is ready", protocol.LogPersistenced: "persistence mode is enabled", protocol.LogSystem: "the simulated node has started",
	} {
		if err := Log(stateDir, source, "", text); err != nil {
			return err
		}
	}
	return nil
}

// pollEvery is the time between two reads of the journal.
const pollEvery = 100 * time.Millisecond

// Logs implements helper.LogHost.
func (d *Driver) Logs(ctx context.Context, s logs.Scope, each func(logs.Line)) error {
	for read := int64(0); ; {
		f, err := os.Open(logFile(filepath.Dir(d.path)))
		switch {
		case err == nil:
			read, err = readLines(f, read, func(l logLine) {
				if l.isIn(s) && !l.At.Before(s.Since) {
					each(logs.Line{At: l.At, Text: l.Text})
				}
			})
			err = errors.Join(err, f.Close())
		case errors.Is(err, fs.ErrNotExist):
			err = nil // the journal begins again
		}
		if err != nil || !s.Follow {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollEvery):
		}
	}
}

// isIn reports whether a scope contains the line. An account reads what is about it.
func (l logLine) isIn(s logs.Scope) bool {
	switch source := s.Source; {
	case s.User == "":
		return l.Source == source || source == protocol.LogSystem
	case source == protocol.LogLogin:
		return l.Source == protocol.LogSSHD && l.User == s.User
	default:
		return l.Source == source && l.User == s.User
	}
}

// readLines reads the complete lines after an offset, and returns the offset of the next one. A file that is shorter has begun
// again.
func readLines(f *os.File, from int64, each func(logLine)) (next int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return from, fmt.Errorf("reading the journal: %w", err)
	}
	if info.Size() < from {
		from = 0
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return from, fmt.Errorf("reading the journal: %w", err)
	}
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return from, nil //nolint:nilerr // half a line is read the next time
		}
		from += int64(len(line))
		var l logLine
		if json.Unmarshal(line, &l) == nil {
			each(l)
		}
	}
}
