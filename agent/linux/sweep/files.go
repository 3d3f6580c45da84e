package sweep

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// sweepFiles removes every file of the uid from every local file system.
func (t Tenant) sweepFiles(ctx context.Context) error {
	list, err := trees()
	if err != nil {
		return err
	}
	var all error
	for _, m := range list {
		if t.isHome(m.point) {
			continue // its key goes, and with it everything at once
		}
		if ctx.Err() != nil {
			break // said once is enough
		}
		// The clone is a view of this one file system without the mounts on it. The walk finds
		// files that a mount hides and never enters another file system.
		fd, err := unix.OpenTree(unix.AT_FDCWD, m.point, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			if errors.Is(err, unix.ENOENT) { // unmounted meanwhile
				continue
			}
			all = errors.Join(all, fmt.Errorf("opening the file system on %s: %w", m.point, err))
			continue
		}
		all = errors.Join(all, t.sweepTree(ctx, fd, m.point))
	}
	return all
}

func (t Tenant) sweepTree(ctx context.Context, fd int, point string) error {
	defer func() { _ = unix.Close(fd) }()
	top, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) {
		return nil // a file that is mounted on a file
	} else if err != nil {
		return fmt.Errorf("opening the file system on %s: %w", point, err)
	}
	w := &walk{tenant: t, ctx: ctx}
	w.dir(top, &place{name: point}, false)
	return w.failed
}

// place is the position of the walk. Names are joined only for a message, because a tenant may create
// folders that are deeper than the longest path.
type place struct {
	above *place
	name  string
}

func (p *place) String() string {
	var names []string
	for ; p != nil && len(names) < 100; p = p.above {
		names = append([]string{strings.TrimSuffix(p.name, "/")}, names...)
	}
	return strings.Join(names, "/")
}

// walk traverses one file system by descriptors, so that a link in the place of a folder cannot redirect
// it.
type walk struct {
	tenant Tenant
	ctx    context.Context //nolint:containedctx // of the one call that makes the walk
	failed error
	faults int
}

func (w *walk) fail(at *place, err error) {
	if w.faults++; w.faults <= 10 { // a broken disk says it for every file
		w.failed = errors.Join(w.failed, fmt.Errorf("%s: %w", at, err))
	}
}

// some is the number of names that one read returns, because a folder may contain millions.
const some = 512

// dir removes the tenant's files in a folder and below, and closes fd. In a folder that belongs to
// the tenant it also removes files of root. kept reports that files of others remain.
func (w *walk) dir(fd int, at *place, theirs bool) (kept bool) {
	f := os.NewFile(uintptr(fd), at.name)
	defer func() { _ = f.Close() }()
	for {
		if err := w.ctx.Err(); err != nil {
			w.failed = errors.Join(w.failed, fmt.Errorf("%s: %w", at, err))
			return true
		}
		names, err := f.Readdirnames(some)
		for _, name := range names {
			kept = w.entry(fd, &place{at, name}, theirs) || kept
		}
		if errors.Is(err, io.EOF) {
			return kept
		} else if err != nil {
			w.fail(at, err)
			return true
		}
	}
}

func (w *walk) entry(dir int, at *place, theirs bool) (kept bool) {
	var stat unix.Stat_t
	if err := unix.Fstatat(dir, at.name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false // gone meanwhile
	}
	mine := int(stat.Uid) == w.tenant.UID
	remove := mine || theirs && stat.Uid == 0
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		fd, err := unix.Openat(dir, at.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if errors.Is(err, unix.ENOENT) {
			return false
		} else if err != nil {
			w.fail(at, err)
			return true
		}
		if mine {
			_ = thaw(fd) // nothing is removed from an immutable folder
		}
		kept = w.dir(fd, at, remove)
	}
	if remove && !kept {
		if err := unlink(dir, at.name, stat.Mode); err != nil {
			w.fail(at, err)
			return true
		}
		return false
	}
	w.disown(dir, at, &stat)
	return true
}

// disown removes the tenant from what stays: a folder with files of others, a file of the group of the
// tenant, an access list of another user's file.
func (w *walk) disown(dir int, at *place, stat *unix.Stat_t) {
	owner, group := -1, -1
	if int(stat.Uid) == w.tenant.UID {
		owner = 0
	}
	if int(stat.Gid) == w.tenant.UID {
		group = 0
	}
	if owner == 0 || group == 0 {
		if err := unix.Fchownat(dir, at.name, owner, group, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			w.fail(at, err)
		}
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFLNK {
		return
	}
	for _, list := range []string{"system.posix_acl_access", "system.posix_acl_default"} {
		if err := dropACL(fmt.Sprintf("/proc/self/fd/%d/%s", dir, at.name), list, w.tenant.UID); err != nil {
			w.fail(at, err)
		}
	}
}

// unlink removes a file, also if a flag of the file or of its folder protects it.
func unlink(dir int, name string, mode uint32) error {
	flags := 0
	if mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	}
	err := unix.Unlinkat(dir, name, flags)
	if errors.Is(err, unix.EPERM) {
		_ = thaw(dir)
		if kind := mode & unix.S_IFMT; kind == unix.S_IFREG || kind == unix.S_IFDIR {
			if fd, failed := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); failed == nil {
				_ = thaw(fd)
				_ = unix.Close(fd)
			}
		}
		err = unix.Unlinkat(dir, name, flags)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// thaw clears the flags that prevent changes of a file.
func thaw(fd int) error {
	var flags uint32
	if err := ioctlFlags(fd, unix.FS_IOC_GETFLAGS, &flags); err != nil {
		return err
	}
	const frozen = 0x10 | 0x20 // immutable, append only
	if flags&frozen == 0 {
		return nil
	}
	flags &^= frozen
	return ioctlFlags(fd, unix.FS_IOC_SETFLAGS, &flags)
}

// Of the kernel's form of an access list: a version, then entries of tag,
// permission and id, all little-endian.
const (
	aclHead, aclEntry = 4, 8
	aclUser, aclGroup = 0x02, 0x08
	aclMask           = 0x10
	longestACL        = 64 << 10
)

// dropACL removes the permissions of a uid, and of the group of that number, from
// an access list.
func dropACL(path, list string, uid int) error {
	value := make([]byte, 256)
	n, err := unix.Lgetxattr(path, list, value)
	if errors.Is(err, unix.ERANGE) {
		value = make([]byte, longestACL)
		n, err = unix.Lgetxattr(path, list, value)
	}
	if err != nil || n < aclHead {
		return nil //nolint:nilerr // no list, or none on this file system
	}
	kept, dropped := without(value[:n], uid)
	if !dropped {
		return nil
	}
	if err := unix.Lsetxattr(path, list, kept, 0); err != nil {
		return fmt.Errorf("taking uid %d out of the access list: %w", uid, err)
	}
	return nil
}

// without returns the list without the uid. After the last named entry it removes the mask, too,
// because the mask would then limit the group.
func without(list []byte, uid int) (kept []byte, dropped bool) {
	named := 0
	keep := func(match func(tag uint16, id uint32) bool) (out []byte) {
		out = append(out, list[:aclHead]...)
		for e := list[aclHead:]; len(e) >= aclEntry; e = e[aclEntry:] {
			if match(binary.LittleEndian.Uint16(e), binary.LittleEndian.Uint32(e[4:])) {
				out = append(out, e[:aclEntry]...)
			}
		}
		return out
	}
	kept = keep(func(tag uint16, id uint32) bool {
		isNamed := tag == aclUser || tag == aclGroup
		if isNamed && int(id) == uid {
			dropped = true
			return false
		}
		if isNamed {
			named++
		}
		return true
	})
	if dropped && named == 0 {
		list = kept
		kept = keep(func(tag uint16, _ uint32) bool { return tag != aclMask })
	}
	return kept, dropped
}
