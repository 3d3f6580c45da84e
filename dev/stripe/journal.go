package stripe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/gpuaas/gpuaas/internal/durable"
)

const (
	keysFor   = 24 * time.Hour      // as long as the API remembers them
	eventsFor = 30 * 24 * time.Hour // as long as the API lists them
)

// state is everything that the provider remembers.
type state struct {
	customers  table[*customer]
	sessions   table[*session]
	intents    table[*intent]
	charges    table[*charge]
	refunds    table[*refund]
	portals    table[*portal]
	events     table[*event]
	deliveries table[*delivery]
	answers    table[*answer]
	faults     table[*armed]
}

// line of the journal: the rows that one change has touched.
type line struct {
	Customers  []*customer `json:"customers,omitempty"`
	Sessions   []*session  `json:"sessions,omitempty"`
	Intents    []*intent   `json:"intents,omitempty"`
	Charges    []*charge   `json:"charges,omitempty"`
	Refunds    []*refund   `json:"refunds,omitempty"`
	Portals    []*portal   `json:"portals,omitempty"`
	Events     []*event    `json:"events,omitempty"`
	Deliveries []*delivery `json:"deliveries,omitempty"`
	Answers    []*answer   `json:"answers,omitempty"`
	Faults     []*armed    `json:"faults,omitempty"`
}

func (s *state) load(l line) {
	s.customers.load(l.Customers...)
	s.sessions.load(l.Sessions...)
	s.intents.load(l.Intents...)
	s.charges.load(l.Charges...)
	s.refunds.load(l.Refunds...)
	s.portals.load(l.Portals...)
	s.events.load(l.Events...)
	s.deliveries.load(l.Deliveries...)
	s.answers.load(l.Answers...)
	s.faults.load(l.Faults...)
}

func (s *state) fresh() line {
	return line{
		s.customers.fresh(), s.sessions.fresh(), s.intents.fresh(), s.charges.fresh(), s.refunds.fresh(), s.portals.fresh(),
		s.events.fresh(), s.deliveries.fresh(), s.answers.fresh(), s.faults.fresh(),
	}
}

func (s *state) all() line {
	return line{
		s.customers.rows, s.sessions.rows, s.intents.rows, s.charges.rows, s.refunds.rows, s.portals.rows,
		s.events.rows, s.deliveries.rows, s.answers.rows, s.faults.rows,
	}
}

// seen says that the journal has everything.
func (s *state) seen() {
	s.customers.changed, s.sessions.changed, s.intents.changed, s.charges.changed, s.refunds.changed = nil, nil, nil, nil, nil
	s.portals.changed, s.events.changed, s.deliveries.changed, s.answers.changed, s.faults.changed = nil, nil, nil, nil, nil
}

// forget drops what is past its time; what is still to be delivered keeps its event.
func (s *state) forget(now time.Time) {
	waits := map[string]bool{}
	for _, d := range s.deliveries.rows {
		waits[d.Event] = waits[d.Event] || !d.over()
	}
	s.events.keep(func(e *event) bool { return waits[e.ID] || now.Sub(time.Unix(e.Created, 0)) < eventsFor })
	s.deliveries.keep(func(d *delivery) bool { _, ok := s.events.get(d.Event); return ok })
	s.answers.keep(func(a *answer) bool { return now.Sub(a.At) < keysFor })
	s.portals.keep(func(p *portal) bool { return !p.over(now) })
}

// journal is the file: one line for each change, none of which is ever rewritten.
type journal struct {
	file *os.File
	size int64
}

// openJournal reads what stands in the file, and begins it anew with that.
func openJournal(path string, s *state, now time.Time) (*journal, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the payments: %w", err)
	}
	// What follows the last line's end is a change that a crash has cut off, and
	// that nobody was told of.
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for n := 1; len(text) > 0; n++ {
		one, rest, _ := bytes.Cut(text, []byte("\n"))
		var l line
		if err := json.Unmarshal(one, &l); err != nil {
			return nil, fmt.Errorf("reading line %d of %s: %w", n, path, err)
		}
		s.load(l)
		text = rest
	}
	s.forget(now)
	begin, err := json.Marshal(s.all())
	if err != nil {
		return nil, fmt.Errorf("encoding the payments: %w", err)
	}
	if err := durable.Write(path, append(begin, '\n'), 0o600); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the payments: %w", err)
	}
	return &journal{file: file, size: int64(len(begin)) + 1}, nil
}

// add writes a line where the last whole one ends: a half one, of a full disk,
// would swallow the next.
func (j *journal) add(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encoding a change: %w", err)
	}
	if len(text) == len("{}") {
		return nil // nothing was changed
	}
	text = append(text, '\n')
	if _, err := io.NewOffsetWriter(j.file, j.size).Write(text); err != nil {
		return errors.Join(fmt.Errorf("writing a change: %w", err), j.file.Truncate(j.size))
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("writing a change: %w", err)
	}
	j.size += int64(len(text))
	return nil
}

func (j *journal) close() error { return j.file.Close() }
