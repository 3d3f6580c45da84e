// Package journal is what a node remembers: for each allocation the highest fence
// it acted on, the tasks it was given, how far it came, and how they ended. A
// record is on disk before the node acts on it.
//
// It refuses to start empty where it once was full: a node that forgot its fences
// cannot tell an old order from a new one.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Record is one allocation's memory.
type Record struct {
	Allocation ids.Allocation `json:"allocation_id"`
	// Tasks are those remembered, in the order they were admitted. The last one
	// has the highest fence and attempt.
	Tasks []Entry `json:"tasks"`
}

// Entry is one task that was admitted.
type Entry struct {
	Envelope wire.Envelope `json:"envelope"`
	Digest   string        `json:"digest"` // hex SHA-256 of the signed bytes
	// Begun lists the steps whose effect this task set out to make.
	Begun  []string     `json:"begun"`
	Result *wire.Result `json:"result,omitempty"`
	Told   bool         `json:"told"` // the control plane has the result
}

// Last is the task admitted last.
func (r Record) Last() *Entry { return &r.Tasks[len(r.Tasks)-1] }

// clone shares nothing that changes with r.
func (r Record) clone() Record {
	r.Tasks = slices.Clone(r.Tasks)
	for i := range r.Tasks {
		r.Tasks[i].Begun = slices.Clone(r.Tasks[i].Begun)
	}
	return r
}

// Journal is the memory of one node.
type Journal struct {
	dir  string
	head head

	mu      sync.Mutex
	records map[ids.Allocation]Record
}

// head tells this journal from any other.
type head struct {
	ID   uuid.UUID `json:"journal_id"`
	Node ids.Node  `json:"node_id"`
	Boot int64     `json:"boot"` // counts openings
}

// ErrLost means that the journal of an enrolled node is not there, or is another.
var ErrLost = errors.New("the journal is lost: this node no longer knows what it was told. Enrol it again")

// Open opens the journal that expect names, and counts one more boot. A zero
// expect makes a new journal when there is none: the node has just enrolled.
func Open(dir string, node ids.Node, expect uuid.UUID, now time.Time) (*Journal, error) {
	j := &Journal{dir: dir, records: map[ids.Allocation]Record{}}
	text, err := os.ReadFile(j.headPath())
	switch {
	case errors.Is(err, fs.ErrNotExist) && expect != uuid.Nil:
		return nil, ErrLost
	case errors.Is(err, fs.ErrNotExist):
		// Counting from the time makes a journal that replaces a lost one newer than
		// it, and leaves a restored old one older.
		j.head = head{ID: uuid.New(), Node: node, Boot: now.Unix()}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("making journal: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("opening journal: %w", err)
	default:
		if err := json.Unmarshal(text, &j.head); err != nil {
			return nil, fmt.Errorf("opening journal: %w: %w", ErrLost, err)
		}
	}
	if expect != uuid.Nil && j.head.ID != expect {
		return nil, ErrLost
	}
	if j.head.Node != node {
		return nil, fmt.Errorf("the journal in %s is that of node %s, not of %s", dir, j.head.Node, node)
	}
	if err := j.load(); err != nil {
		return nil, err
	}
	j.head.Boot++
	return j, j.write(j.headPath(), j.head)
}

// Wipe removes a journal that an operator has given up, and leaves what lies beside
// it.
func Wipe(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, recordPrefix+"*"+recordSuffix))
	if err != nil {
		return fmt.Errorf("listing journal: %w", err)
	}
	for _, file := range append(files, filepath.Join(dir, headName)) {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing damaged journal: %w", err)
		}
	}
	return nil
}

// ID names this journal, so that its owner can tell when it was replaced.
func (j *Journal) ID() uuid.UUID { return j.head.ID }

// Boot counts how often this journal was opened.
func (j *Journal) Boot() int64 { return j.head.Boot }

// Get returns what is remembered about an allocation.
func (j *Journal) Get(id ids.Allocation) (Record, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.records[id]
	return r.clone(), ok
}

// All returns every record, in order of allocation ids.
func (j *Journal) All() []Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]Record, 0, len(j.records))
	for _, r := range j.records {
		all = append(all, r.clone())
	}
	slices.SortFunc(all, func(a, b Record) int { return strings.Compare(a.Allocation.String(), b.Allocation.String()) })
	return all
}

// Put remembers r. When it returns nil, r outlives a power cut.
func (j *Journal) Put(r Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.write(j.path(r.Allocation), r); err != nil {
		return fmt.Errorf("journalling: %w", err)
	}
	j.records[r.Allocation] = r.clone()
	return nil
}

// Forget drops records that are over and whose every task expired before cutoff:
// no older task of theirs can still be fresh.
func (j *Journal) Forget(cutoff time.Time, over func(Record) bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, r := range maps.Clone(j.records) {
		late := func(e Entry) bool { return !e.Envelope.ExpiresAt.Before(cutoff) }
		if !over(r) || slices.ContainsFunc(r.Tasks, late) {
			continue
		}
		if err := os.Remove(j.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forgetting allocation %s: %w", id, err)
		}
		delete(j.records, id)
	}
	return nil
}

func (j *Journal) headPath() string { return filepath.Join(j.dir, headName) }

const headName = "journal.json"

const recordPrefix, recordSuffix = "allocation-", ".json"

func (j *Journal) path(id ids.Allocation) string {
	return filepath.Join(j.dir, recordPrefix+id.String()+recordSuffix)
}

func (j *Journal) write(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	return durable.Write(path, text, 0o600)
}

// load reads all records. One that cannot be read means that a fence is not
// known, and that is as bad as all of them.
func (j *Journal) load() error {
	files, err := filepath.Glob(filepath.Join(j.dir, recordPrefix+"*"+recordSuffix))
	if err != nil {
		return fmt.Errorf("listing journal: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading journal: %w", err)
		}
		var r Record
		if err := json.Unmarshal(text, &r); err != nil || len(r.Tasks) == 0 || j.path(r.Allocation) != file {
			return fmt.Errorf("%s is damaged: %w", filepath.Base(file), ErrLost)
		}
		j.records[r.Allocation] = r
	}
	return nil
}
