package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// processes checks each process: its uids, its open files, and its namespaces.
func (s *search) processes(ctx context.Context) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	uids := regexp.MustCompile(`(?m)^[UG]id:.*\b` + strconv.Itoa(s.uid) + `\b`)
	namespaces := map[string]bool{}
	for _, dir := range dirs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		text, err := os.ReadFile(dir + "/status")
		if hasEnded(err) {
			continue
		} else if err != nil {
			return err
		}
		label := strings.TrimPrefix(dir, "/proc/") + " (" + title(text) + ")"
		if uids.Match(text) {
			s.note("process %s runs as the tenant", label)
		}
		if group, err := os.ReadFile(dir + "/cgroup"); err == nil && strings.Contains(string(group), fmt.Sprintf("/user-%d.slice", s.uid)) {
			s.note("process %s runs in the tenant's slice", label)
		}
		if err := s.uses(ctx, dir, label, ownerOf(text)); err != nil {
			return err
		}
		s.namespace(dir, label, namespaces)
	}
	return nil
}

func title(status []byte) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(string(status), "Name:"), "\n")
	return strings.TrimSpace(name)
}

var uidLine = regexp.MustCompile(`(?m)^Uid:\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)$`)

// ownerOf returns the uid whose process it is. One of several uids that is a tenant's counts.
func ownerOf(status []byte) (uid int) {
	for i, field := range uidLine.FindSubmatch(status) {
		if n, err := strconv.Atoi(string(field)); i > 0 && err == nil && !hostos.IsTenant(uid) {
			uid = n
		}
	}
	return uid
}

// hasEnded reports whether a process ended while it was read.
func hasEnded(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// uses finds files of the uid, deleted or not, that a process uses: open, mapped, or as its folder. A
// socket belongs to the user that created it.
func (s *search) uses(ctx context.Context, dir, label string, owner int) error {
	s.usesLink(dir+"/cwd", label)
	s.usesLink(dir+"/root", label)
	for _, table := range []string{"/fd", "/map_files"} {
		if err := s.usesOf(ctx, dir+table, label, owner); err != nil && !hasEnded(err) {
			return err
		}
	}
	return nil
}

// usesOf reads a table of links in parts. Processes of another tenant may share one with as many descriptors
// as the kernel allows, and each of them shows the whole table.
func (s *search) usesOf(ctx context.Context, table, label string, owner int) error {
	f, err := os.Open(table)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	const some = 512
	for !s.isOver(owner) {
		began := s.clock.Now()
		names, err := f.Readdirnames(some)
		if errors.Is(err, io.EOF) {
			return nil
		} else if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		for _, name := range names {
			s.usesLink(table+"/"+name, label)
		}
		s.spend(owner, len(names), began)
	}
	return nil
}

func (s *search) usesLink(link, label string) {
	if stat, err := statLink(link); err == nil && int(stat.Uid) == s.uid {
		target, _ := os.Readlink(link)
		s.note("process %s uses %s of the tenant", label, target)
	}
}

// statLink returns what the kernel has cached about the file behind a link. A remote file system may
// never respond to a request.
func statLink(link string) (stat unix.Statx_t, err error) {
	err = unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, unix.STATX_UID, &stat)
	return stat, err
}

// namespace finds user namespaces that the uid has created and another process or file has open.
func (s *search) namespace(dir, label string, seen map[string]bool) {
	link, err := os.Readlink(dir + "/ns/user")
	if err != nil || seen[link] {
		return
	}
	seen[link] = true
	f, err := os.Open(dir + "/ns/user")
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	var uid uint32
	if namespaceOwner(f, &uid) == nil && int(uid) == s.uid {
		s.note("process %s is in a user namespace of the tenant", label)
	}
}

// namespaceOwner reads the uid that has made a user namespace.
func namespaceOwner(f *os.File, uid *uint32) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.NS_GET_OWNER_UID, uintptr(unsafe.Pointer(uid))); errno != 0 { //nolint:gosec // the kernel's interface
		return errno
	}
	return nil
}
