package check

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/protocol"
)

// Nodes checks every simulated node. Nothing may be left except for the accounts in live, which are
// login names, and every task must have ended and its result must be acknowledged.
func Nodes(agents string, live []string) (found []Finding, err error) {
	dirs, err := nodeDirs(agents)
	if err != nil {
		return nil, err
	}
	allowed := map[string]bool{}
	for _, l := range live {
		allowed[l] = true
	}
	for _, dir := range dirs {
		h, err := sim.Read(sim.Path(dir))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBlind, err)
		}
		found = append(found, leftovers(h, allowed)...)
		records, err := journalOf(dir)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			last := r.Last()
			if r.Released() && last.Acked || last.Envelope.Type == protocol.ProvisionUser && last.Acked && allowed[userOf(last.Envelope)] {
				continue
			}
			found = append(found, Finding{
				"INV-47 every task ended and was acknowledged",
				fmt.Sprintf("%s: %s of %s, result %+v, acknowledged %v", h.Hostname, last.Envelope.Type, r.Allocation, last.Result, last.Acked),
			})
		}
	}
	return found, nil
}

func leftovers(h *sim.Host, live map[string]bool) (found []Finding) {
	left := func(format string, args ...any) {
		found = append(found, Finding{"INV-09 nothing is left on a node", h.Hostname + ": " + fmt.Sprintf(format, args...)})
	}
	uids := map[int]bool{}
	for name, a := range h.Accounts {
		if live[name] {
			uids[a.UID] = true
		} else {
			left("account %s", name)
		}
	}
	for path, uid := range h.Files {
		if !uids[uid] {
			left("file %s of uid %d", path, uid)
		}
	}
	for _, p := range h.Processes {
		if !uids[p.UID] {
			left("process %d of uid %d", p.PID, p.UID)
		}
	}
	for _, g := range h.GPUs {
		held := false
		for _, u := range g.Users {
			if live[u] {
				held = true
			} else {
				left("%s can open %s", u, g.UUID)
			}
		}
		if g.Dirty && !held {
			left("%s is dirty", g.UUID)
		}
	}
	return found
}

// Unjournalled returns the accounts whose task is in no journal. The rule is true at every instant,
// because the agent writes a task to the journal before it acts. The node is therefore read before
// the journal: a task that starts between both reads is not a finding.
func Unjournalled(agents string) (found []Finding, err error) {
	return (&Watcher{Agents: agents}).Unjournalled()
}

// Watcher repeats the checks that are true at every instant. It reads a node again only after a change: the files of a node
// that does nothing would otherwise need more CPU time than the installation.
type Watcher struct {
	Agents string

	checked map[string]state // by the directory of the node, without a finding
}

// Unjournalled is the function of that name.
func (w *Watcher) Unjournalled() (found []Finding, err error) {
	dirs, err := nodeDirs(w.Agents)
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		before := stateOf(dir)
		old := before.isOld()
		if last, known := w.checked[dir]; known && before == last {
			continue
		}
		list, err := unjournalled(dir)
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
		if len(list) == 0 && old {
			if w.checked == nil {
				w.checked = map[string]state{}
			}
			w.checked[dir] = before
		}
	}
	return found, nil
}

// state identifies the contents of a node's state and of its journal, which are written by renames.
type state struct{ node, journal time.Time }

func stateOf(dir string) state {
	return state{changed(sim.Path(dir)), changed(filepath.Join(dir, "journal"))}
}

// changed returns the time of the last change of a file or of the entries of a folder, and zero without it.
func changed(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// clockTick is longer than the steps in which file systems count time. A second change in one step is not visible.
const clockTick = 50 * time.Millisecond

func (s state) isOld() bool {
	return time.Since(s.node) > clockTick && time.Since(s.journal) > clockTick
}

func unjournalled(dir string) (found []Finding, err error) {
	h, err := sim.Read(sim.Path(dir))
	if err != nil {
		return nil, nil //nolint:nilerr // not created yet
	}
	if len(h.Accounts) == 0 {
		return nil, nil
	}
	records, err := journalOf(dir)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, r := range records {
		for _, t := range r.Tasks {
			known[userOf(t.Envelope)] = true
		}
	}
	for name := range h.Accounts {
		if !known[name] {
			found = append(found, Finding{"INV-43 journalled before it is acted on", h.Hostname + ": account " + name + " is in no journal"})
		}
	}
	return found, nil
}

func userOf(e protocol.Envelope) string {
	var p struct {
		User string `json:"user"`
	}
	_ = json.Unmarshal(e.Params, &p) // other task types have no user
	return p.User
}

// nodeDirs returns the state directories that contain a simulated node.
func nodeDirs(agents string) (dirs []string, err error) {
	files, err := filepath.Glob(filepath.Join(agents, "*", filepath.Base(sim.Path(""))))
	for _, f := range files {
		dirs = append(dirs, filepath.Dir(f))
	}
	return dirs, err
}

// journalOf reads the records from the disk. Records that are only in the memory of an agent do not
// count, because a crash loses them.
func journalOf(dir string) ([]journal.Record, error) {
	records, err := journal.Read(filepath.Join(dir, "journal"))
	if err != nil {
		return nil, fmt.Errorf("%w: journal of %s: %w", ErrBlind, filepath.Base(dir), err)
	}
	return records, nil
}
