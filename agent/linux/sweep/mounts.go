package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// mount is one line of the kernel's table.
type mount struct {
	device  string // major:minor
	root    string // the visible part of the file system
	point   string
	options string
	kind    string
	super   string
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func mountTable() (mounts []mount, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return parseMounts(string(text))
}

func parseMounts(text string) (mounts []mount, err error) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 6 || len(right) < 3 {
			return nil, fmt.Errorf("mount not understood: %q", line)
		}
		mounts = append(mounts, mount{left[2], unescape.Replace(left[3]), unescape.Replace(left[4]), left[5], right[0], right[2]})
	}
	return mounts, nil
}

// sweepMounts unmounts what hangs on the tenant, the last mounted first, but not the
// home itself: a step of its own removes that with its key, and cannot while parts
// of it are mounted elsewhere.
func (t Tenant) sweepMounts(context.Context) error {
	mounts, err := mountTable()
	if err != nil {
		return err
	}
	var devices []string // of the home, and of the tenant's own loop devices
	for _, m := range mounts {
		if t.isHome(m.point) {
			devices = append(devices, m.device)
		}
	}
	for _, name := range t.loops() {
		text, _ := os.ReadFile(filepath.Join("/sys/block", name, "dev"))
		devices = append(devices, strings.TrimSpace(string(text)))
	}
	var all error
	for _, m := range slices.Backward(mounts) {
		if t.isHome(m.point) || !t.holds(m, devices) {
			continue
		}
		// The unmount is lazy, because a process of another user that uses the mount would
		// otherwise prevent it.
		if err := unix.Unmount(m.point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			all = errors.Join(all, fmt.Errorf("unmounting %s: %w", m.point, err))
		}
	}
	return all
}

// isHome returns whether the home itself is mounted there.
func (t Tenant) isHome(point string) bool {
	return point == hostos.HomeOf(t.Name) || point == filepath.Join(hostos.HomesDir, t.Name)
}

func (t Tenant) holds(m mount, devices []string) bool {
	home := hostos.HomeOf(t.Name)
	switch {
	case strings.HasPrefix(m.point, home+"/"), strings.HasPrefix(m.point, filepath.Join(hostos.HomesDir, t.Name)+"/"), m.root == home, strings.HasPrefix(m.root, home+"/"):
		return true
	case slices.Contains(devices, m.device): // another view of the home, or a file of the tenant's
		return true
	case strings.HasPrefix(m.kind, "fuse"):
		return slices.Contains(strings.Split(m.super, ","), fmt.Sprintf("user_id=%d", t.UID))
	case remote(m.kind): // to read its owner may never end
		return false
	}
	return owner(m.point) == t.UID
}

// remote file systems belong to another server and may not answer, so the sweep does not clean them.
func remote(kind string) bool {
	return strings.HasPrefix(kind, "fuse.") || slices.Contains([]string{"fuse", "nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "lustre", "gpfs", "beegfs", "afs", "autofs"}, kind)
}

// kernels reports whether a file system contains no files, only data of the kernel.
func kernels(kind string) bool {
	return slices.Contains([]string{
		"proc", "sysfs", "cgroup", "cgroup2", "securityfs", "debugfs", "tracefs", "pstore", "efivarfs", "configfs", "fusectl", "binfmt_misc",
		"rpc_pipefs", "nfsd", "nsfs", "selinuxfs", "devpts",
	}, kind)
}

// trees are the mounts below which every local file lies, each file system once.
func trees() (list []mount, err error) {
	mounts, err := mountTable()
	if err != nil {
		return nil, err
	}
	// The mount with the widest view of a file system is the first. A narrower mount contains no
	// further files.
	slices.SortStableFunc(mounts, func(a, b mount) int { return len(a.root) - len(b.root) })
	for _, m := range mounts {
		seen := func(other mount) bool {
			return other.device == m.device && (other.root == "/" || other.root == m.root || strings.HasPrefix(m.root, other.root+"/"))
		}
		if !remote(m.kind) && !kernels(m.kind) && !slices.ContainsFunc(list, seen) {
			list = append(list, m)
		}
	}
	return list, nil
}
