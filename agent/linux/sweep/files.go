package sweep

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// sweepFiles removes every file of the uid from every local file system.
func (t Tenant) sweepFiles(ctx context.Context) error {
	list, err := trees()
	if err != nil {
		return err
	}
	var all error
	spent := budgets{}
	for _, m := range list {
		if t.isHome(m.point) {
			continue // its key goes, and with it everything at once
		}
		if ctx.Err() != nil {
			break // one message is enough
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
		all = errors.Join(all, t.sweepTree(ctx, fd, m.point, spent))
	}
	for _, uid := range spent.exceeded() {
		t.skipped(uid)
	}
	return all
}

// entry removes a file, or disowns one that stays. The walk enters a folder later.
func (w *walk) entry(at *level, name string) {
	var stat unix.Stat_t
	if err := unix.Fstatat(w.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if !errors.Is(err, unix.ENOENT) {
			w.fail(int(at.stat.Uid), name, err)
		}
		return // gone meanwhile
	}
	switch {
	case stat.Mode&unix.S_IFMT == unix.S_IFDIR:
		w.add(at, name, int(stat.Uid))
	case w.removes(at, &stat):
		if err := unlink(w.fd, name, stat.Mode); err != nil {
			w.fail(int(stat.Uid), name, err)
			at.remains = true
		}
	default:
		w.disown(name, &stat)
		at.remains = true
	}
}

// removes reports whether the release removes a file: the tenant's, and those of root in its folders.
func (w *walk) removes(at *level, stat *unix.Stat_t) bool {
	return int(stat.Uid) == w.tenant.UID || at.remove && stat.Uid == 0
}

// leave removes a folder after its content, or disowns it. parent is the level that contains it.
func (w *walk) leave(parent, child *level) {
	if !child.remove || child.remains {
		parent.remains = true
		w.disown(child.name, &child.stat)
		return
	}
	if err := unlink(w.fd, child.name, unix.S_IFDIR); err != nil {
		w.fail(int(child.stat.Uid), child.name, err)
		parent.remains = true
	}
}

// disown removes the tenant from what stays: a folder with files of others, a file of the group of the
// tenant, an access list of root's file. It does not change a file of another tenant.
func (w *walk) disown(name string, stat *unix.Stat_t) {
	if w.isOther(int(stat.Uid)) {
		return
	}
	owner, group := -1, -1
	if int(stat.Uid) == w.tenant.UID {
		owner = 0
	}
	if int(stat.Gid) == w.tenant.UID {
		group = 0
	}
	if owner == 0 || group == 0 {
		if err := unix.Fchownat(w.fd, name, owner, group, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			w.fail(0, name, err)
		}
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFLNK {
		return
	}
	for _, list := range []string{"system.posix_acl_access", "system.posix_acl_default"} {
		if err := dropACL(fmt.Sprintf("/proc/self/fd/%d/%s", w.fd, name), list, w.tenant.UID); err != nil {
			w.fail(0, name, err)
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
