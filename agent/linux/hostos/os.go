// Package hostos reads and changes files of the host OS, runs its programs, and reads its accounts and
// mounts. It knows nothing of tasks: agent/linux and its other subpackages build on it.
//
// The package runs no shell and only the programs that command.go lists.
package hostos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// OS is the host OS. Its fields are set before its first use.
type OS struct {
	// Root precedes every path. It is empty, except in tests.
	Root string
	// Run starts a program. Nil means Child. Tests replace it.
	Run Commander
}

// Path returns the path below Root.
func (o *OS) Path(elements ...string) string {
	return filepath.Join(o.Root, filepath.Join(elements...))
}

// Files and folders that several packages use.
const (
	passwdFile = "/etc/passwd"
	GroupFile  = "/etc/group"
	// HomesDir has the image of each account, NAME.img, and its mount point, NAME.
	HomesDir = "/var/lib/gpuaas/homes"
	// ShmDir has the /dev/shm of each tenant.
	ShmDir = "/dev/shm/gpuaas"
	// RunUnitDir contains the units that a start of the host OS removes.
	RunUnitDir = "/run/systemd/system"
)

// Modes of files and folders of root.
const (
	ConfigMode = 0o644
	DirMode    = 0o711
	OwnMode    = 0o700 // of folders that only root reads
)

// The uids of tenants. The first one is above all accounts of the host OS and of people. The last one is
// below the overflow uid of 32-bit programs.
const (
	MinUID = 200000
	MaxUID = 1<<31 - 2
)

// IsTenant reports whether the uid is one of a tenant.
func IsTenant(uid int) bool { return uid >= MinUID && uid <= MaxUID }

// SliceOf returns the slice in which systemd runs all processes of the uid.
func SliceOf(uid int) string { return fmt.Sprintf("user-%d.slice", uid) }

// HomeOf returns the home directory of a tenant.
func HomeOf(name string) string { return "/home/" + name }

// UserName matches the account names of tenants.
var UserName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// CheckTenant rejects a name or uid that is not a tenant's. The protocol has checked the task already. This
// check is the last one before root acts.
func CheckTenant(name string, uid int) error {
	if !UserName.MatchString(name) {
		return fmt.Errorf("%q is no account name of a tenant", name)
	}
	if !IsTenant(uid) {
		return fmt.Errorf("uid %d is not a tenant's", uid)
	}
	return nil
}

// User is a line of /etc/passwd.
type User struct {
	Name     string
	UID, GID int
	Home     string
	Shell    string
}

// Users reads only local accounts: the agent does not manage accounts of a directory service.
func (o *OS) Users() (found []User, err error) {
	err = o.Lines(passwdFile, func(line string) {
		f := strings.Split(line, ":")
		const fields = 7
		if len(f) != fields {
			return
		}
		uid, bad := strconv.Atoi(f[2])
		gid, worse := strconv.Atoi(f[3])
		if bad == nil && worse == nil {
			found = append(found, User{f[0], uid, gid, f[5], f[6]})
		}
	})
	return found, err
}

// SameMounts rejects work in a private mount namespace: what is unmounted there stays mounted for all
// other processes, and /tmp may be another folder.
func SameMounts() error {
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return fmt.Errorf("reading the mount namespace of the agent: %w", err)
	}
	theirs, err := os.Readlink("/proc/1/ns/mnt")
	if err != nil {
		return fmt.Errorf("reading the mount namespace of the node: %w", err)
	}
	if ours != theirs {
		return errors.New("the helper runs in its own mount namespace and cannot read the files of the node: remove the sandbox options that create it from its unit")
	}
	return nil
}
