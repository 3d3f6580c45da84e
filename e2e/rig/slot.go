package rig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// slot contains the local resources that one container owns: a number, and with it a name, a network, a
// folder and control groups. Its lock ends with the process that has locked it. The next owner of
// the number removes the leftovers.
type slot struct {
	number int
	dir    string
	lock   *os.File
}

// slots is the number of containers at the same time. Each network has four addresses of 10.213.0.0/16.
const slots = 200

func reserve() (s slot, err error) {
	base, err := cache()
	if err != nil {
		return s, err
	}
	const locks = "/run/gpuaas-rig"
	if err := os.MkdirAll(locks, 0o700); err != nil {
		return s, fmt.Errorf("reserving a container: %w", err)
	}
	for n := range slots {
		lock, err := lockFile(filepath.Join(locks, fmt.Sprintf("%d.lock", n)), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		} else if err != nil {
			return s, err
		}
		s = slot{number: n, dir: filepath.Join(base, "hosts", fmt.Sprint(n)), lock: lock}
		s.removeGroups()
		if err := os.RemoveAll(s.dir); err != nil {
			return s, errors.Join(fmt.Errorf("sweeping an earlier container: %w", err), lock.Close())
		}
		for _, name := range []string{"upper", "work", "root"} {
			if err := os.MkdirAll(filepath.Join(s.dir, name), 0o755); err != nil { //nolint:gosec // the root folder of a host
				return s, errors.Join(fmt.Errorf("making the disk of a container: %w", err), lock.Close())
			}
		}
		return s, nil
	}
	return s, fmt.Errorf("%d containers run on this computer already", slots)
}

func (s slot) free() error {
	err := os.RemoveAll(s.dir)
	return errors.Join(err, s.lock.Close())
}

func (s slot) name() string { return fmt.Sprintf("rig-%d", s.number) }

func (s slot) address(end int) string {
	return fmt.Sprintf("10.213.%d.%d", s.number/64, s.number%64*4+end)
}

// hierarchies lists the control group hierarchies that a container uses. If version 1 is mounted, too,
// nspawn uses the path of systemd's own hierarchy. All containers started from one place then share
// their groups, and two containers would kill each other's users.
func hierarchies() (dirs []string) {
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil {
			dirs = append(dirs, dir)
		}
	}
	if _, err := os.Stat("/sys/fs/cgroup/systemd/cgroup.procs"); err == nil && len(dirs) > 0 {
		dirs = append(dirs, "/sys/fs/cgroup/systemd")
	}
	return dirs
}

func (s slot) groups() (dirs []string) {
	for _, dir := range hierarchies() {
		dirs = append(dirs, filepath.Join(dir, "gpuaas-"+s.name()))
	}
	return dirs
}

// removeGroups removes the empty groups, the deepest first.
func (s slot) removeGroups() {
	for _, group := range s.groups() {
		var dirs []string
		_ = filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			_ = os.Remove(dir)
		}
	}
}
