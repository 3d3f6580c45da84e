package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
)

const headName = "journal.json"

// head identifies the journal.
type head struct {
	ID   uuid.UUID `json:"journal_id"`
	Node ids.Node  `json:"node_id"`
	Boot int64     `json:"boot"` // counts openings
	// Allocations that have a record, and how many writings made them.
	Allocations []ids.Allocation `json:"allocations"`
	Writes      int64            `json:"writes"`
	// Lost is the reason why the journal must not be used any more.
	Lost string `json:"lost,omitempty"`
	// Deleted is later than the signature of every task whose record was deleted.
	Deleted time.Time `json:"deleted,omitzero"`
}

// readHead finds the journal that o names, or begins one; made is true if it has begun one.
func (j *Journal) readHead(o Options) (made bool, err error) {
	err = unseal(filepath.Join(o.Dir, headName), &j.head)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.Expect != uuid.Nil:
		return false, ErrLost
	case errors.Is(err, fs.ErrNotExist):
		// The boot number starts at the current time. A journal that replaces a lost one is
		// therefore newer than it, and a restored old one is older.
		j.head = head{ID: uuid.New(), Node: o.Node, Boot: o.Now.Unix()}
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return false, fmt.Errorf("making journal: %w", err)
		}
		return true, j.unmoor()
	case err != nil:
		return false, err
	case o.Expect != uuid.Nil && j.head.ID != o.Expect:
		return false, ErrLost
	case j.head.Node != o.Node:
		return false, fmt.Errorf("the journal in %s is that of node %s, not of %s", o.Dir, j.head.Node, o.Node)
	case j.head.Lost != "":
		return false, fmt.Errorf("%s: %w", j.head.Lost, ErrLost)
	}
	return false, nil
}

func (j *Journal) writeHead() error {
	j.head.Writes, j.head.Allocations = j.writes, make([]ids.Allocation, 0, len(j.records))
	for id := range j.records {
		j.head.Allocations = append(j.head.Allocations, id)
	}
	slices.SortFunc(j.head.Allocations, func(a, b ids.Allocation) int { return strings.Compare(a.String(), b.String()) })
	return seal(filepath.Join(j.dir, headName), j.head)
}

// MarkLost marks the journal as lost until an operator enrols the node again. The control plane has reports
// of a later life of this node than the journal contains.
func (j *Journal) MarkLost(why string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.head.Lost = why
	return j.writeHead()
}

// mooring is the content of the anchor.
type mooring struct {
	ID     uuid.UUID `json:"journal_id"`
	Boot   int64     `json:"boot"`
	Writes int64     `json:"writes"`
}

// anchored reports whether the anchor belongs to this journal. It rejects a journal that is behind its
// anchor: the directory is an older copy of itself.
func (j *Journal) anchored() (bool, error) {
	if j.anchor == "" {
		return false, nil
	}
	text, err := os.ReadFile(j.anchor)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("reading anchor of the journal: %w", err)
	}
	var m mooring
	if err := json.Unmarshal(text, &m); err != nil {
		return false, nil //nolint:nilerr // cut by a crash: as good as none
	}
	if m.ID == j.head.ID && (m.Boot > j.head.Boot || m.Writes > j.writes) {
		return false, fmt.Errorf("it is at boot %d and write %d, but was at %d and %d: %w", j.head.Boot, j.writes, m.Boot, m.Writes, ErrLost)
	}
	return m.ID == j.head.ID, nil
}

// moor writes the number of the last write to the anchor. The anchor is in memory, so nothing is synced.
// A crash before this call leaves the anchor behind the journal, which is harmless.
func (j *Journal) moor() error {
	if j.anchor == "" {
		return nil
	}
	text, err := json.Marshal(mooring{ID: j.head.ID, Boot: j.head.Boot, Writes: j.writes})
	if err != nil {
		return fmt.Errorf("encoding anchor: %w", err)
	}
	temp := j.anchor + ".new"
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return fmt.Errorf("anchoring journal: %w", err)
	}
	if err := os.Rename(temp, j.anchor); err != nil {
		return fmt.Errorf("anchoring journal: %w", err)
	}
	return nil
}

// unmoor removes the anchor of the previous journal.
func (j *Journal) unmoor() error {
	if j.anchor == "" {
		return nil
	}
	if err := os.Remove(j.anchor); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing anchor of the journal before: %w", err)
	}
	return nil
}
