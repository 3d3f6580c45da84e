package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/protocol"
)

// A release waits for the upload of files for a bounded time. All parts together are below step.UnmountWithin.
const (
	endWithin    = 5 * time.Second
	uploadWithin = 35 * time.Second
	stopWithin   = 20 * time.Second
	uploadEvery  = 300 * time.Millisecond
)

// Remove ends the mounts of a tenant, and returns the number of files that were not uploaded. It ends the programs of the
// tenant that use them first. Storage that is away delays it by a bounded time, and fails nothing.
func (m *Mounts) Remove(ctx context.Context, name string, uid int) (lost int, err error) {
	units, err := m.units(uid)
	if err != nil {
		return 0, err
	}
	if len(units) > 0 {
		m.endSlice(ctx, name, uid)
		m.upload(ctx, name, uid)
		m.stop(ctx, uid, units)
	}
	// Also without units: an earlier try may have ended after it removed them.
	lost = m.notStored(ctx, name)
	return lost, errors.Join(m.detach(name, uid), m.removeFiles(ctx, uid, units))
}

// notStored counts the files in all caches of a tenant that wait for their upload. What cannot be counted may be lost, and is
// one.
func (m *Mounts) notStored(ctx context.Context, name string) (lost int) {
	caches, err := os.ReadDir(m.Path(cachesDir(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	} else if err != nil {
		return 1
	}
	for _, cache := range caches {
		count, err := dirty(ctx, m.Path(filepath.Join(cachesDir(name), cache.Name())), ".")
		if lost += count; err != nil {
			lost = max(lost, 1)
		}
	}
	return lost
}

// units lists the units of a tenant that have a file.
func (m *Mounts) units(uid int) (names []string, err error) {
	files, err := filepath.Glob(m.Path(unitFile(fmt.Sprintf("gpuaas-mount-%d-*.service", uid))))
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	return names, err
}

func (m *Mounts) endSlice(ctx context.Context, name string, uid int) {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	if m.EndSlice != nil {
		m.EndSlice(ctx, name, uid)
	}
}

// upload waits until rclone has uploaded all files. The tenant may have stopped rclone.
func (m *Mounts) upload(ctx context.Context, name string, uid int) {
	ctx, cancel := context.WithTimeout(ctx, uploadWithin)
	defer cancel()
	for calm := 0; calm < 2 && ctx.Err() == nil; {
		waiting := false
		for n, state := range m.active(ctx, uid, protocol.MaxMounts) {
			if state != "active" {
				continue // rclone does not run
			}
			_, _ = m.Command(ctx, hostos.Systemctl, "kill", "--signal=CONT", "--", unitName(uid, n))
			count, err := dirty(ctx, m.Path(cacheDir(name, n)), ".")
			waiting = waiting || err != nil || count > 0
		}
		if calm++; waiting {
			calm = 0
		}
		select {
		case <-ctx.Done():
		case <-time.After(uploadEvery):
		}
	}
}

// stop stops the units. What does not end in time is killed, and its mount is detached.
func (m *Mounts) stop(ctx context.Context, uid int, units []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if _, err := m.Command(ctx, hostos.Systemctl, append([]string{"stop", "--"}, units...)...); err != nil {
		_, _ = m.Command(context.WithoutCancel(ctx), hostos.Systemctl, append([]string{"kill", "--signal=KILL", "--"}, units...)...)
	}
	_, _ = m.Command(context.WithoutCancel(ctx), hostos.Systemctl, "stop", "--", sliceName(uid))
}

// detach unmounts all mounts of a tenant, without a request to the program that provides them. Several may be at one place.
func (m *Mounts) detach(name string, uid int) error {
	const most = 64
	for range most {
		table, err := m.Mounts()
		if err != nil {
			return err
		}
		left := 0
		for at, mounted := range table {
			inHome := strings.HasPrefix(mounted.Kind, "fuse") && strings.HasPrefix(at, homeDir(name)+"/")
			if !inHome && !mounted.FUSEOf(uid) {
				continue
			}
			left++
			if err := unmount(m.Path(at)); err != nil {
				return fmt.Errorf("unmounting %s: %w", at, err)
			}
		}
		if left == 0 {
			return nil
		}
	}
	return fmt.Errorf("mounts of uid %d appear again", uid)
}

// unmount detaches a mount of the mount table, whose paths contain no link. A program of the tenant that still runs may put a
// link into the path, to lead it to a mount of the node or of another tenant: no link is followed. What has moved meanwhile is
// no error, because the caller reads the table again.
func unmount(at string) error {
	parent, err := openFolder(filepath.Dir(at))
	if err == nil {
		err = unix.Unmount(fmt.Sprintf("/proc/self/fd/%d/%s", parent, filepath.Base(at)), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		_ = unix.Close(parent)
	}
	for _, moved := range []error{unix.EINVAL, unix.ENOENT, unix.ELOOP, unix.ENOTDIR} {
		if errors.Is(err, moved) {
			return nil
		}
	}
	return err
}

// openFolder opens a folder one name after the other, and follows no link. Containers and old kernels have no openat2.
func openFolder(path string) (fd int, err error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if fd, err = unix.Open("/", flags, 0); err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		next, err := unix.Openat(fd, name, flags, 0)
		_ = unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// removeFiles removes the units and the configuration.
func (m *Mounts) removeFiles(ctx context.Context, uid int, units []string) error {
	var files []string
	for _, unit := range append(units, sliceName(uid)) {
		files = append(files, unitFile(unit))
	}
	for n := range protocol.MaxMounts {
		files = append(files, configFile(uid, n))
	}
	gone := false
	for _, file := range append(files, specFile(uid), dirOf(uid)) {
		changed, err := m.OS.Remove(file)
		if err != nil {
			return err
		}
		gone = gone || changed
	}
	if !gone {
		return nil
	}
	if err := m.Reload(ctx); err != nil {
		return err
	}
	for _, unit := range units { // systemd has dropped most of them
		_, _ = m.Command(ctx, hostos.Systemctl, "reset-failed", "--", unit)
	}
	return nil
}
