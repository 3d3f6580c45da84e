package pgcluster

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// owner is the operating system user of PostgreSQL, which does not run as root.
type owner struct {
	uid, gid int
	// drop reports whether this process must change to the user.
	drop bool
}

// ownerOf returns the owner of an existing data directory. For a new one, root uses the user
// postgres or, if it does not exist, the system's unprivileged user.
func ownerOf(data string) (owner, error) {
	me := owner{uid: os.Geteuid(), gid: os.Getegid()}
	var st syscall.Stat_t
	switch err := syscall.Stat(data, &st); {
	case err == nil && me.uid == 0 && st.Uid != 0:
		return owner{uid: int(st.Uid), gid: int(st.Gid), drop: true}, nil
	case err == nil && me.uid != 0 && int(st.Uid) != me.uid:
		return owner{}, errs.New(errs.Forbidden, "data directory %s belongs to %s", data, nameOf(int(st.Uid))).
			Try("run as %s or root, or choose another directory", nameOf(int(st.Uid)))
	case err != nil && !os.IsNotExist(err):
		return owner{}, fmt.Errorf("looking at the data directory: %w", err)
	}
	if me.uid != 0 {
		return me, nil
	}
	return unprivileged()
}

func unprivileged() (owner, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil {
			return owner{uid: uid, gid: gid, drop: true}, nil
		}
	}
	return owner{}, errs.New(errs.Unavailable, "PostgreSQL does not run as root, and neither the user postgres nor the user nobody exists")
}

func nameOf(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "user " + strconv.Itoa(uid)
}

// folder makes a folder that only o may enter.
func (o owner) folder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("making %s: %w", path, err)
	}
	st, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", path, err)
	}
	// In /tmp anybody may have been here first, to read our traffic.
	had := int(st.Sys().(*syscall.Stat_t).Uid) //nolint:forcetypeassert // Lstat has no other type on Unix
	if !st.IsDir() || (had != o.uid && had != os.Geteuid()) {
		return errs.New(errs.Conflict, "%s belongs to %s", path, nameOf(had))
	}
	if had != o.uid {
		if err := os.Lchown(path, o.uid, o.gid); err != nil {
			return fmt.Errorf("handing %s to %s: %w", path, nameOf(o.uid), err)
		}
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return fmt.Errorf("closing %s to others: %w", path, err)
	}
	return nil
}
