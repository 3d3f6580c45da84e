// Package journal stores, for each allocation, the highest fence that the node acted on, its tasks, the
// steps that they began, and their results. A record is on disk before the node acts on it.
//
// The journal does not open empty if it was in use before, with a record that is missing, cut or
// changed, or as an older copy of itself. A node without its fences cannot distinguish an old task from
// a new one.
package journal

import (
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

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Journal is the memory of one node.
type Journal struct {
	dir    string
	head   head
	anchor string
	// opened is the time of Open, unless the previous process ended in the same boot of the host OS.
	opened time.Time

	mu      sync.Mutex
	records map[ids.Allocation]Record
	writes  int64
}

// ErrLost means that the journal of an enrolled node is not there, or is another.
var ErrLost = errors.New("the journal is lost: this node no longer knows its completed tasks. Enrol it again")

// Options select the journal.
type Options struct {
	Dir  string
	Node ids.Node
	// Expect is the journal that belongs to the node. Zero makes a new one where
	// there is none: the node has just enrolled.
	Expect uuid.UUID
	// Anchor is a file in memory with the number of the last write in this boot of the host OS. It shows
	// that the directory is an older copy. It is empty on simulated nodes, which need no such check.
	Anchor string
	Now    time.Time
	// Enrolled means that an operator has enrolled the node again. The control plane then counts boots
	// from the beginning, so a number from a clock that was ahead is corrected.
	Enrolled bool
}

// Open opens a journal and counts one more boot.
func Open(o Options) (*Journal, error) {
	j := &Journal{dir: o.Dir, anchor: o.Anchor, records: map[ids.Allocation]Record{}}
	made, err := j.readHead(o)
	if err != nil {
		return nil, err
	}
	if err := j.load(); err != nil {
		return nil, err
	}
	warm, err := j.anchored()
	if err != nil {
		return nil, err
	}
	if !made && !warm && o.Anchor != "" {
		j.opened = o.Now
	}
	j.head.Boot++
	if now := o.Now.Unix(); o.Enrolled && j.head.Boot > now {
		j.head.Boot = now
	}
	if err := j.writeHead(); err != nil {
		return nil, err
	}
	return j, j.moor()
}

// Wipe deletes a journal after an operator has enrolled the node again. Other files in the folder stay.
func Wipe(dir, anchor string) error {
	files, err := recordsIn(dir)
	if err != nil {
		return err
	}
	files = append(files, filepath.Join(dir, headName))
	if anchor != "" {
		files = append(files, anchor)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing damaged journal: %w", err)
		}
	}
	return nil
}

// ID identifies this journal, so that the trust state can show a replacement.
func (j *Journal) ID() uuid.UUID { return j.head.ID }

// Boot counts how often this journal was opened.
func (j *Journal) Boot() int64 { return j.head.Boot }

// Since returns the time before which no unknown task is accepted, or zero. After a start of the
// node nothing proves that the disk is not an old copy. A task signed after that start is new to
// every copy. It is also later than every task of a deleted record, so that such a task is not executed again.
func (j *Journal) Since() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.head.Deleted.After(j.opened) {
		return j.head.Deleted
	}
	return j.opened
}

// Get returns the record of an allocation.
func (j *Journal) Get(id ids.Allocation) (Record, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.records[id]
	return r.clone(), ok
}

// All returns every record, ordered by allocation id.
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

// Put stores r. After it has returned nil, r survives a power failure.
func (j *Journal) Put(r Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.Write = j.writes + 1
	if err := seal(j.path(r.Allocation), r); err != nil {
		return fmt.Errorf("journalling: %w", err)
	}
	j.writes++
	_, known := j.records[r.Allocation]
	j.records[r.Allocation] = r.clone()
	if !known {
		// After the record: one that is listed and does not exist is lost.
		if err := j.writeHead(); err != nil {
			return err
		}
	}
	return j.moor()
}

// Delete removes records for which over is true and whose tasks all expired before cutoff. Their fences are lost. If the
// clock was wrong, such a task can still be valid, so Since rises above the time at which the last of them was signed.
func (j *Journal) Delete(cutoff time.Time, over func(Record) bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, r := range maps.Clone(j.records) {
		late := func(e Entry) bool { return !e.Envelope.ExpiresAt.Before(cutoff) }
		if !over(r) || slices.ContainsFunc(r.Tasks, late) {
			continue
		}
		delete(j.records, id)
		for _, t := range r.Tasks {
			j.head.Deleted = later(j.head.Deleted, t.Envelope.SignedAt().Add(time.Second))
		}
		if err := j.writeHead(); err != nil { // before the file is gone
			return err
		}
		if err := os.Remove(j.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forgetting allocation %s: %w", id, err)
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

const recordPrefix, recordSuffix = "allocation-", ".json"

func (j *Journal) path(id ids.Allocation) string {
	return filepath.Join(j.dir, recordPrefix+id.String()+recordSuffix)
}

// load reads all records. A record that is unreadable or missing means an unknown fence, and one
// unknown fence is as dangerous as many, so load fails.
func (j *Journal) load() error {
	files, err := recordsIn(j.dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		r, err := readRecord(file)
		if err != nil {
			return err
		}
		j.records[r.Allocation], j.writes = r, max(j.writes, r.Write)
	}
	for _, id := range j.head.Allocations {
		if _, ok := j.records[id]; !ok {
			return fmt.Errorf("the record of allocation %s is missing: %w", id, ErrLost)
		}
	}
	j.writes = max(j.writes, j.head.Writes)
	return nil
}

// Read returns the records of a journal on the disk. It does not open the journal, so the agent may
// be running. A record that the agent deletes during the call is omitted.
func Read(dir string) ([]Record, error) {
	files, err := recordsIn(dir)
	if err != nil {
		return nil, err
	}
	all := make([]Record, 0, len(files))
	for _, file := range files {
		r, err := readRecord(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func recordsIn(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, recordPrefix+"*"+recordSuffix))
	if err != nil {
		return nil, fmt.Errorf("listing journal: %w", err)
	}
	return files, nil
}

func readRecord(file string) (r Record, err error) {
	if err := unseal(file, &r); err != nil {
		return Record{}, err
	}
	if len(r.Tasks) == 0 || recordPrefix+r.Allocation.String()+recordSuffix != filepath.Base(file) {
		return Record{}, fmt.Errorf("%s is another's: %w", filepath.Base(file), ErrLost)
	}
	return r, nil
}
