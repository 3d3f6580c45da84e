package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// usersGroup is the control group of all users.
const usersGroup = "/sys/fs/cgroup/user.slice"

// groupsOfOne limits the control groups that are read of one tenant. Each session is one, and only root
// makes another.
const groupsOfOne = 1024

// members returns, by pid, the uid of the tenant's slice that a process is in. One file lists thousands of
// processes, so a fork bomb costs its tenant's slice one read.
func (t *Table) members(ctx context.Context) (map[int]int, error) {
	pids := map[int]int{}
	entries, err := os.ReadDir(t.os.Path(usersGroup))
	if errors.Is(err, os.ErrNotExist) {
		return pids, nil // no user has a session
	} else if err != nil {
		return nil, fmt.Errorf("reading slices: %w", err)
	}
	for _, e := range entries {
		number, isSlice := strings.CutPrefix(e.Name(), "user-")
		uid, err := strconv.Atoi(strings.TrimSuffix(number, ".slice"))
		if !isSlice || err != nil || !hostos.IsTenant(uid) {
			continue
		}
		left := groupsOfOne
		if err := t.membersOf(ctx, filepath.Join(usersGroup, e.Name()), &left, func(pid int) { pids[pid] = uid }); err != nil {
			return nil, err
		}
	}
	return pids, nil
}

// membersOf reads a control group and those below it, until left is used up. It skips one that is gone
// meanwhile.
func (t *Table) membersOf(ctx context.Context, group string, left *int, each func(pid int)) error {
	if *left--; *left < 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	err := t.os.Lines(filepath.Join(group, "cgroup.procs"), func(line string) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 0 {
			each(pid)
		}
	})
	if err != nil && !isGone(err) {
		return fmt.Errorf("reading %s: %w", group, err)
	}
	entries, err := os.ReadDir(t.os.Path(group))
	if err != nil && !isGone(err) {
		return fmt.Errorf("reading %s: %w", group, err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := t.membersOf(ctx, filepath.Join(group, e.Name()), left, each); err != nil {
				return err
			}
		}
	}
	return nil
}

// isGone reports whether a control group was removed while it was read.
func isGone(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) }
