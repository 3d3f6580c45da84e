package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// Limits of a walk in the folders of another tenant. A tree beyond them counts against its owner: the walk
// leaves it, and the release continues. Nothing of the departing tenant is in there, unless its owner helped.
const (
	entriesOfOther = 100_000
	timeOfOther    = time.Second
	// foldersInOne limits the names of subfolders in memory. A folder with more of them fails the release
	// of its owner.
	foldersInOne = 1 << 20
)

// budgets count what a sweep has spent in the folders of other tenants, by uid.
type budgets map[int]*budget

type budget struct {
	entries int
	time    time.Duration
}

func (b *budget) isOver() bool {
	return b != nil && (b.entries > entriesOfOther || b.time > timeOfOther)
}

func (b budgets) spend(uid, entries int, took time.Duration) {
	if b[uid] == nil {
		b[uid] = &budget{}
	}
	b[uid].entries += entries
	b[uid].time += took
}

func (b budgets) exceeded() []int {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b)), func(uid int) bool { return !b[uid].isOver() })
}

// walk traverses one file system by descriptors, so that a link in the place of a folder cannot redirect
// it. It has one folder open, and returns from it by "..": a tree may be deeper than the number of
// descriptors, and its path longer than a path may be.
type walk struct {
	tenant Tenant
	ctx    context.Context //nolint:containedctx // of the one call that makes the walk
	spent  budgets
	clock  clock.Clock

	top, fd int // the file system, and the folder where the walk is
	levels  []level
	buffer  []byte
	failed  error
	faults  int
}

// level is one folder on the way from the top.
type level struct {
	name    string
	stat    unix.Stat_t
	remove  bool     // it is removed with its content
	remains bool     // some of its content stays
	pending []string // subfolders that the walk has not entered
}

// sweepTree removes the tenant's files in a file system, and closes fd.
func (t Tenant) sweepTree(ctx context.Context, fd int, point string, spent budgets) error {
	defer func() { _ = unix.Close(fd) }()
	const block = 64 << 10
	w := &walk{tenant: t, ctx: ctx, spent: spent, top: fd, fd: -1, buffer: make([]byte, block)}
	err := w.enter(fd, ".", false)
	if errors.Is(err, unix.ENOTDIR) {
		return nil // a file that is mounted on a file
	} else if err != nil {
		return fmt.Errorf("opening the file system on %s: %w", point, err)
	}
	w.levels[0].name = point
	for len(w.levels) > 0 && ctx.Err() == nil {
		at := &w.levels[len(w.levels)-1]
		if n := len(at.pending) - 1; n >= 0 {
			name := at.pending[n]
			at.pending = at.pending[:n]
			w.down(at, name)
			continue
		}
		w.up()
	}
	if ctx.Err() != nil {
		w.failed = errors.Join(w.failed, fmt.Errorf("%s: %w", w.place(""), ctx.Err()))
	}
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
	}
	return w.failed
}

// place is the position of the walk, for messages.
func (w *walk) place(name string) string {
	const longest = 100 // of a path that a tenant may make endless
	var names []string
	for _, l := range w.levels[:min(len(w.levels), longest)] {
		names = append(names, strings.TrimSuffix(l.name, "/"))
	}
	return strings.Join(append(names, name), "/")
}

// fail records an error, unless another tenant owns the file: that error counts against its owner.
func (w *walk) fail(uid int, name string, err error) {
	if w.isOther(uid) {
		w.spent.spend(uid, 1, 0)
		return
	}
	const most = 10 // a broken disk fails for every file
	if w.faults++; w.faults <= most {
		w.failed = errors.Join(w.failed, fmt.Errorf("%s: %w", w.place(name), err))
	}
}

func (w *walk) isOther(uid int) bool { return uid != w.tenant.UID && hostos.IsTenant(uid) }

const openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK

// enter opens a folder below dir, reads it, and makes it the last level.
func (w *walk) enter(dir int, name string, inRemoved bool) error {
	fd, err := unix.Openat(dir, name, openFolder, 0)
	if err != nil {
		return err
	}
	l := level{name: name}
	if err := unix.Fstat(fd, &l.stat); err != nil {
		_ = unix.Close(fd)
		return err
	}
	mine := int(l.stat.Uid) == w.tenant.UID
	l.remove = mine && len(w.levels) > 0 || inRemoved && l.stat.Uid == 0
	if mine {
		_ = thaw(fd) // nothing is removed from an immutable folder
	}
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
	}
	w.fd, w.levels = fd, append(w.levels, l)
	w.read(&w.levels[len(w.levels)-1])
	return nil
}

// down enters a subfolder of the last level.
func (w *walk) down(at *level, name string) {
	var stat unix.Stat_t
	err := unix.Fstatat(w.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		if w.isOther(int(stat.Uid)) && w.spent[int(stat.Uid)].isOver() {
			at.remains = true
			return
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFDIR { // replaced meanwhile
			w.entry(at, name)
			return
		}
		err = w.enter(w.fd, name, at.remove)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		w.fail(int(stat.Uid), name, err)
		w.levels[len(w.levels)-1].remains = true
	}
}

// read processes the entries of the last level. It stops where the owner of the folder has used its budget.
func (w *walk) read(at *level) {
	other := w.isOther(int(at.stat.Uid))
	for w.ctx.Err() == nil {
		began := w.clock.Now()
		n, err := unix.ReadDirent(w.fd, w.buffer)
		if err != nil {
			w.fail(int(at.stat.Uid), "", err)
		}
		if err != nil || n <= 0 {
			at.remains = at.remains || err != nil
			return
		}
		_, _, names := unix.ParseDirent(w.buffer[:n], -1, nil)
		for _, name := range names {
			w.entry(at, name)
		}
		if !other {
			continue
		}
		if w.spent.spend(int(at.stat.Uid), len(names), w.clock.Now().Sub(began)); w.spent[int(at.stat.Uid)].isOver() {
			at.remains, at.pending = true, nil
			return
		}
	}
}

// add adds a subfolder of the last level, which the walk enters after it has read the level.
func (w *walk) add(at *level, name string, uid int) {
	if len(at.pending) >= foldersInOne {
		w.fail(uid, name, fmt.Errorf("more than %d folders in one", foldersInOne))
		at.remains = true
		return
	}
	at.pending = append(at.pending, name)
}

// up returns to the level above. The owner of a tree may move a folder while the walk is in it.
func (w *walk) up() {
	child := w.levels[len(w.levels)-1]
	w.levels = w.levels[:len(w.levels)-1]
	if len(w.levels) == 0 {
		return
	}
	fd, err := unix.Openat(w.fd, "..", openFolder, 0)
	if err == nil && !isAt(fd, &w.levels[len(w.levels)-1].stat) {
		_ = unix.Close(fd)
		err = unix.ESTALE
	}
	_ = unix.Close(w.fd)
	if w.fd = fd; err != nil {
		w.fd = -1
		w.fail(int(child.stat.Uid), child.name, fmt.Errorf("returning from a folder that was moved: %w", err))
		w.reopen()
		return
	}
	w.leave(&w.levels[len(w.levels)-1], &child)
}

func isAt(fd int, want *unix.Stat_t) bool {
	var have unix.Stat_t
	return unix.Fstat(fd, &have) == nil && have.Dev == want.Dev && have.Ino == want.Ino
}

// reopen goes down from the top again, as far as the levels are where they were.
func (w *walk) reopen() {
	fd, err := unix.Openat(w.top, ".", openFolder, 0)
	if err != nil {
		w.failed, w.levels = errors.Join(w.failed, err), nil
		return
	}
	for i := 1; i < len(w.levels); i++ {
		l := &w.levels[i]
		next, err := unix.Openat(fd, l.name, openFolder, 0)
		if err == nil && !isAt(next, &l.stat) {
			_ = unix.Close(next)
			err = unix.ESTALE
		}
		if err != nil {
			w.fail(int(l.stat.Uid), l.name, fmt.Errorf("returning to a folder that was moved: %w", err))
			w.levels = w.levels[:i]
			break
		}
		_ = unix.Close(fd)
		fd = next
	}
	w.fd = fd
	w.levels[len(w.levels)-1].remains = true
	const far = 100 // a path that is walked again costs more than an entry
	for _, l := range w.levels {
		if w.isOther(int(l.stat.Uid)) {
			w.spent.spend(int(l.stat.Uid), far, 0)
			break
		}
	}
}
