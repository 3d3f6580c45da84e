// Package sweep removes what a tenant leaves outside its home: processes, units, kernel objects, mounts and
// files. It decides by owner and name, so the caller checks first that both are a tenant's. It removes no
// account and no home.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// sweeps remove what a tenant leaves outside its home. Users of files end before the files are
// removed, and no sweep removes a resource of another user.
var sweeps = []struct {
	what string
	do   func(Tenant, context.Context) error
}{
	{"System V IPC", Tenant.sweepIPC},
	{"mounts", Tenant.sweepMounts},
	{"loop devices", Tenant.sweepLoops},
	{"keyrings", Tenant.sweepKeyrings},
	{"control groups", Tenant.sweepGroups},
	{"files by name", Tenant.sweepNamed},
	{"files by owner", Tenant.sweepFiles},
}

func (t Tenant) Sweep(ctx context.Context) error {
	err := t.disableAutostart()
	for _, s := range sweeps {
		if failed := s.do(t, ctx); failed != nil { // the others are removed all the same
			err = errors.Join(err, fmt.Errorf("sweeping %s: %w", s.what, failed))
		}
	}
	return err
}

// ipcTables are the kernel's lists of System V objects: the columns with the identifier and the
// owners, and the call that removes one object.
var ipcTables = []struct {
	file       string
	id         int
	uid, maker int
	call       uintptr
}{
	{"/proc/sysvipc/shm", 1, 7, 9, unix.SYS_SHMCTL},
	{"/proc/sysvipc/msg", 1, 7, 9, unix.SYS_MSGCTL},
	{"/proc/sysvipc/sem", 1, 4, 6, unix.SYS_SEMCTL},
}

func (t Tenant) sweepIPC(context.Context) error {
	var all error
	for _, table := range ipcTables {
		text, err := os.ReadFile(table.file)
		if err != nil {
			return fmt.Errorf("reading IPC objects: %w", err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			fields := strings.Fields(line)
			if i == 0 || len(fields) <= table.maker {
				continue
			}
			if uid := strconv.Itoa(t.UID); fields[table.uid] != uid && fields[table.maker] != uid {
				continue
			}
			id, err := strconv.Atoi(fields[table.id])
			if err != nil {
				return fmt.Errorf("reading IPC objects: %w", err)
			}
			if err := removeIPC(table.call, id); err != nil {
				all = errors.Join(all, fmt.Errorf("removing object %d of %s: %w", id, table.file, err))
			}
		}
	}
	return all
}

func removeIPC(call uintptr, id int) error {
	const remove = 0 // IPC_RMID
	command, third := uintptr(remove), uintptr(0)
	if call == unix.SYS_SEMCTL { // a set, not one of its semaphores
		command, third = 0, remove
	}
	if _, _, errno := unix.Syscall(call, uintptr(id), command, third); errno != 0 && errno != unix.EINVAL && errno != unix.EIDRM {
		return errno
	}
	return nil
}

func (t Tenant) sweepLoops(context.Context) error {
	var all error
	for _, name := range t.loops() {
		all = errors.Join(all, detach(filepath.Join("/dev", name)))
	}
	return all
}

// loops are the loop devices on files of the tenant's, by name.
func (t Tenant) loops() (names []string) {
	found, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil // the pattern is well formed
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // detached meanwhile
		}
		name := strings.Split(file, "/")[3]
		if t.backs(filepath.Join("/dev", name), strings.TrimSpace(string(text))) {
			names = append(names, name)
		}
	}
	return names
}

// backs reports whether the device uses a file of the tenant. The name alone is not enough: in a
// container it may be a file of another host OS with the same name.
func (t Tenant) backs(device, backing string) bool {
	backing, deleted := strings.CutSuffix(backing, " (deleted)")
	if deleted {
		return strings.HasPrefix(backing, hostos.HomeOf(t.Name)+"/")
	}
	var stat unix.Stat_t
	if err := unix.Stat(backing, &stat); err != nil || int(stat.Uid) != t.UID {
		return false
	}
	f, err := os.Open(device)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	return err == nil && info.Inode == stat.Ino
}

func detach(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", device, err)
	}
	defer func() { _ = f.Close() }()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.LOOP_CLR_FD, 0); errno != 0 && errno != unix.ENXIO {
		return fmt.Errorf("detaching %s: %w", device, errno)
	}
	return nil
}

func (t Tenant) sweepGroups(context.Context) error {
	var all error
	for _, dir := range deepest(groups, func(path string) bool {
		return owner(path) == t.UID || strings.Contains(path+"/", "/"+hostos.SliceOf(t.UID)+"/")
	}) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EBUSY) {
			all = errors.Join(all, fmt.Errorf("removing control group: %w", err))
		}
	}
	return all
}

// deepest lists folders, those below others first.
func deepest(top string, which func(path string) bool) (dirs []string) {
	entries, err := os.ReadDir(top)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if path := filepath.Join(top, e.Name()); e.IsDir() {
			dirs = append(dirs, deepest(path, which)...)
			if which(path) {
				dirs = append(dirs, path)
			}
		}
	}
	return dirs
}

// named are files of root's that are about one tenant, by its name or uid, in folders that only root
// writes, and /var/crash. The memory of a program that crashed, and what the tenant's programs printed, are the
// tenant's even though root owns the files.
func (t Tenant) named() (paths []string) {
	uid := strconv.Itoa(t.UID)
	for _, pattern := range []string{
		"/var/lib/systemd/linger/" + t.Name,
		"/var/lib/systemd/coredump/core.*." + uid + ".*",
		"/var/crash/*." + uid + ".crash",
		"/var/log/journal/*/user-" + uid + ".journal", "/var/log/journal/*/user-" + uid + "@*.journal*",
		"/run/log/journal/*/user-" + uid + ".journal", "/run/log/journal/*/user-" + uid + "@*.journal*",
		"/var/mail/" + t.Name, "/var/spool/cron/crontabs/" + t.Name,
		"/run/sudo/ts/" + t.Name, "/run/sudo/ts/" + uid, "/var/lib/sudo/lectured/" + t.Name, "/var/lib/sudo/lectured/" + uid,
		"/etc/sudoers.d/" + t.Name, "/etc/ssh/authorized_keys/" + t.Name, "/etc/ssh/authorized_keys.d/" + t.Name,
		"/var/lib/AccountsService/users/" + t.Name, "/var/lib/systemd/timers/*-" + t.Name + ".*",
	} {
		found, err := filepath.Glob(pattern)
		if err == nil { // every pattern is well formed: names have no special character
			paths = append(paths, found...)
		}
	}
	return paths
}

func (t Tenant) sweepNamed(context.Context) error {
	var all error
	for _, path := range t.named() {
		// A folder of such a name is no file of the host OS. The sweep by owner removes it.
		if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EISDIR) {
			all = errors.Join(all, fmt.Errorf("removing %s: %w", path, err))
		}
	}
	// logind removes the folder, unless its unit failed. It is empty at this point.
	if err := os.Remove(fmt.Sprintf("/run/user/%d", t.UID)); err != nil && !errors.Is(err, os.ErrNotExist) {
		all = errors.Join(all, err)
	}
	return all
}

func (t Tenant) sweepKeyrings(context.Context) error {
	return as(t.UID, func() error {
		for _, ring := range []int{unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_USER_SESSION_KEYRING} {
			if _, err := unix.KeyctlInt(unix.KEYCTL_CLEAR, ring, 0, 0, 0); err != nil && !noKeys(err) {
				return fmt.Errorf("clearing keyring %d: %w", ring, err)
			}
		}
		// The persistent keyring outlives every session by days. The call creates it if there is
		// none.
		ring, err := unix.KeyctlInt(unix.KEYCTL_GET_PERSISTENT, -1, unix.KEY_SPEC_PROCESS_KEYRING, 0, 0)
		if err == nil {
			_, err = unix.KeyctlInt(unix.KEYCTL_CLEAR, ring, 0, 0, 0)
		}
		if err != nil && !noKeys(err) {
			return fmt.Errorf("clearing the persistent keyring: %w", err)
		}
		return nil
	})
}

// noKeys reports that the kernel has no keyrings, or none of this type.
func noKeys(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOKEY)
}

func ioctlFlags(fd int, request uintptr, flags *uint32) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(flags))); errno != 0 { //nolint:gosec // the kernel's interface
		return errno
	}
	return nil
}
