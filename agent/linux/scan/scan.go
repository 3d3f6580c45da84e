// Package scan searches the host OS and its GPUs for everything of a tenant after a release. It removes
// nothing and shares no code with the steps that remove: a mistake there must not hide here.
package scan

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/protocol"
)

// search is one leftover scan for one tenant. It shares no code with the steps that remove, because
// a fault in shared code would hide its own leftovers.
type search struct {
	name string
	uid  int
	gpus []string

	Sources

	about *regexp.Regexp // the name or the uid, standing alone
	found map[string]bool
}

// searches lists the parts of a scan. Each reads the host OS independently of the others.
var searches = []struct {
	what string
	do   func(*search, context.Context) error
}{
	{"account files", (*search).accounts},
	{"processes", (*search).processes},
	{"control groups", (*search).controlGroups},
	{"files", (*search).files},
	{"IPC objects", (*search).ipc},
	{"keyrings", (*search).keyrings},
	{"sockets", (*search).sockets},
	{"packet filter", (*search).filter},
	{"mounts", (*search).mounts},
	{"GPUs", (*search).devices},
}

// Sources are the parts of the host OS that a scan reads through programs.
type Sources struct {
	Hardware func(context.Context) (protocol.Inventory, error)
	Rules    func(context.Context) (string, error) // of netfilter, without counters: one could equal a uid
}

// Leftovers returns everything of a tenant that is left on the host OS and on its GPUs.
func Leftovers(ctx context.Context, name string, uid int, gpus []string, sources Sources) ([]string, error) {
	if err := errors.Join(hostos.CheckTenant(name, uid), hostos.SameMounts()); err != nil {
		return nil, err
	}
	s := newSearch(name, uid, gpus)
	s.Sources = sources
	return s.scan(ctx)
}

func newSearch(name string, uid int, gpus []string) *search {
	return &search{
		name: name, uid: uid, gpus: gpus, found: map[string]bool{},
		about: regexp.MustCompile(`(^|[^a-zA-Z0-9_-])` + regexp.QuoteMeta(name) + `($|[^a-zA-Z0-9_-])|(^|[^0-9a-zA-Z])` + strconv.Itoa(uid) + `($|[^0-9a-zA-Z])`),
	}
}

// scan returns the leftovers, sorted. A part that could not be read is an error, because it proves
// no absence.
func (s *search) scan(ctx context.Context) ([]string, error) {
	for _, part := range searches {
		if err := part.do(s, ctx); err != nil {
			return nil, fmt.Errorf("looking at %s: %w", part.what, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("looking at %s: %w", part.what, err)
		}
	}
	list := make([]string, 0, len(s.found))
	for what := range s.found {
		list = append(list, what)
	}
	slices.Sort(list)
	return list, nil
}

func (s *search) note(format string, args ...any) {
	s.found[fmt.Sprintf(format, args...)] = true
}

func (s *search) accounts(context.Context) error {
	for _, path := range []string{"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid", "/etc/subgid", "/etc/sudoers", "/etc/cron.allow", "/etc/at.allow"} {
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if s.about.MatchString(lines.Text()) {
				what, _, _ := strings.Cut(lines.Text(), ":")
				s.note("%s names the tenant: %s", path, what)
			}
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// processes checks each process: its uids, its open files, and its namespaces.
func (s *search) processes(ctx context.Context) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	namespaces := map[string]bool{}
	for _, dir := range dirs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		text, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue // it has ended
		}
		label := strings.TrimPrefix(dir, "/proc/") + " (" + title(text) + ")"
		if regexp.MustCompile(`(?m)^[UG]id:.*\b` + strconv.Itoa(s.uid) + `\b`).Match(text) {
			s.note("process %s runs as the tenant", label)
		}
		if group, err := os.ReadFile(dir + "/cgroup"); err == nil && strings.Contains(string(group), fmt.Sprintf("/user-%d.slice", s.uid)) {
			s.note("process %s runs in the tenant's slice", label)
		}
		s.holds(dir, label)
		s.namespace(dir, label, namespaces)
	}
	return nil
}

func title(status []byte) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(string(status), "Name:"), "\n")
	return strings.TrimSpace(name)
}

// holds finds files of the uid, deleted or not, that a process uses: open, mapped, or as its folder. A
// socket belongs to the user that created it.
func (s *search) holds(dir, label string) {
	for _, pattern := range []string{"/fd/*", "/map_files/*", "/cwd", "/root"} {
		links, err := filepath.Glob(dir + pattern)
		if err != nil {
			continue
		}
		for _, link := range links {
			if stat, err := statLink(link); err == nil && int(stat.Uid) == s.uid {
				target, _ := os.Readlink(link)
				s.note("process %s uses %s of the tenant", label, target)
			}
		}
	}
}

// statLink returns what the kernel has cached about the file behind a link. A remote file system may
// never respond to a request.
func statLink(link string) (stat unix.Statx_t, err error) {
	err = unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, unix.STATX_UID, &stat)
	return stat, err
}

// namespace finds user namespaces that the uid has created and another process or file keeps open.
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

func (s *search) controlGroups(ctx context.Context) error {
	return filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return ctx.Err()
		}
		if s.owns(path) || strings.HasPrefix(d.Name(), fmt.Sprintf("user-%d.slice", s.uid)) || strings.HasPrefix(d.Name(), fmt.Sprintf("user@%d.", s.uid)) {
			s.note("control group %s", path)
		}
		return ctx.Err()
	})
}

func (s *search) owns(path string) bool {
	info, err := os.Lstat(path) //nolint:gosec // the kernel's own list of processes
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(stat.Uid) == s.uid || int(stat.Gid) == s.uid)
}

// ledgers are the folders whose files may refer to one user by name or content.
var ledgers = []string{
	"/etc", "/home", "/run", "/var/spool", "/var/mail", "/var/crash", "/var/lib/systemd", "/var/lib/sudo", "/var/lib/AccountsService", "/var/log/journal",
}

// ordered lists the settings that take effect if they name a user.
var ordered = []string{"/etc/sudoers.d/", "/etc/systemd/system", "/run/systemd/system", "/run/systemd/transient", "/etc/security", "/etc/ssh/sshd_config.d", "/etc/polkit-1", "/etc/tmpfiles.d", "/etc/cron"}

func (s *search) files(ctx context.Context) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	seen, points := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points[strings.ReplaceAll(fields[4], `\040`, " ")] = true
		}
	}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 1 || foreign.MatchString(right[0]) || seen[left[2]+left[3]] {
			continue
		}
		seen[left[2]+left[3]] = true
		if err := s.tree(ctx, strings.ReplaceAll(left[4], `\040`, " "), points); err != nil {
			return err
		}
	}
	return nil
}

// foreign file systems are lists of the kernel, or belong to other computers.
var foreign = regexp.MustCompile(`^(proc|sysfs|cgroup2?|securityfs|debugfs|tracefs|pstore|efivarfs|configfs|fusectl|binfmt_misc|autofs|rpc_pipefs|nfsd?4?|nsfs|cifs|smb3|9p|ceph|lustre|gpfs|beegfs|afs|fuse|fuse\..*)$`)

// tree searches one mounted file system. It does not read the owner of a mount point, because a
// mounted file system that hangs would block the scan.
func (s *search) tree(ctx context.Context, top string, points map[string]bool) error {
	var here unix.Stat_t
	if err := unix.Lstat(top, &here); err != nil {
		return nil //nolint:nilerr // unmounted meanwhile
	}
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if path != top && points[path] {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		var stat unix.Stat_t
		if err != nil || unix.Lstat(path, &stat) != nil {
			return nil //nolint:nilerr // gone meanwhile: root may look everywhere
		}
		if stat.Dev != here.Dev && d.IsDir() {
			return fs.SkipDir
		}
		s.file(path, &stat)
		return nil
	})
}

func (s *search) file(path string, stat *unix.Stat_t) {
	switch {
	case int(stat.Uid) == s.uid:
		s.note("file %s", path)
	case int(stat.Gid) == s.uid:
		s.note("file %s of the tenant's group", path)
	case s.named(path, stat):
		s.note("file %s is about the tenant", path)
	case s.permitted(path):
		s.note("file %s gives the tenant access", path)
	}
}

func (s *search) named(path string, stat *unix.Stat_t) bool {
	under := func(dir string) bool { return strings.HasPrefix(path, dir) }
	// The names that another tenant gives its own files prove nothing about this one.
	if !slices.ContainsFunc(ledgers, under) || stat.Uid >= hostos.MinUID && int(stat.Uid) != s.uid {
		return false
	}
	if s.about.MatchString(filepath.Base(path)) {
		return true
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Size > 1<<20 || !slices.ContainsFunc(ordered, under) {
		return false
	}
	text, err := os.ReadFile(path)
	return err == nil && s.about.Match(text)
}

// permitted says whether an access list has the uid in it.
func (s *search) permitted(path string) bool {
	for _, list := range []string{"system.posix_acl_access", "system.posix_acl_default"} {
		value := make([]byte, 4096)
		n, err := unix.Lgetxattr(path, list, value)
		if err != nil {
			continue
		}
		for at := 4; at+8 <= n; at += 8 {
			tag, id := value[at], int(value[at+4])|int(value[at+5])<<8|int(value[at+6])<<16|int(value[at+7])<<24
			if (tag == 0x02 || tag == 0x08) && id == s.uid {
				return true
			}
		}
	}
	return false
}

// owners are the columns of a table of System V objects that contain a user or group.
var owners = []string{"uid", "gid", "cuid", "cgid"}

func (s *search) ipc(context.Context) error {
	for _, kind := range []string{"shm", "sem", "msg"} {
		text, err := os.ReadFile("/proc/sysvipc/" + kind)
		if err != nil {
			return err
		}
		var header []string
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if header == nil {
				header = fields
				continue
			}
			for i, value := range fields { // sizes and processes are numbers, too
				if i < len(header) && slices.Contains(owners, header[i]) && value == strconv.Itoa(s.uid) {
					s.note("System V object %s %s", kind, fields[1])
					break
				}
			}
		}
	}
	return nil
}

// keyrings: of the uid's own, which the kernel never drops, only empty ones may be
// left. What a key takes is in the kernel's count of the uid.
func (s *search) keyrings(context.Context) error {
	text, err := os.ReadFile("/proc/key-users")
	if errors.Is(err, os.ErrNotExist) {
		return nil // a kernel without keys
	} else if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != strconv.Itoa(s.uid)+":" {
			continue
		}
		keys, _, _ := strings.Cut(fields[2], "/")
		// _uid, _uid_ses, _persistent and its register.
		if n, err := strconv.Atoi(keys); err != nil || n > 4 {
			s.note("%s keys in the kernel", keys)
		}
	}
	return nil
}

func (s *search) sockets(context.Context) error {
	for _, kind := range []string{"tcp", "tcp6", "udp", "udp6", "udplite", "raw", "raw6"} {
		text, err := os.ReadFile("/proc/net/" + kind)
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 7 && fields[7] == strconv.Itoa(s.uid) {
				s.note("%s socket on %s", kind, fields[1])
			}
		}
	}
	return nil
}

// span is a range of numbers. The agent's own rules name that of all tenants, which
// begins with the uid of one.
var span = regexp.MustCompile(`\b[0-9a-fx]+-[0-9a-fx]+\b`)

func (s *search) filter(ctx context.Context) error {
	text, err := s.Rules(ctx)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		if s.about.MatchString(span.ReplaceAllString(line, "")) {
			s.note("packet filter rule %s", strings.TrimSpace(line))
		}
	}
	return nil
}

func (s *search) mounts(context.Context) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	user := regexp.MustCompile(fmt.Sprintf(`\buser_id=%d\b`, s.uid))
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && (user.MatchString(line) || s.about.MatchString(fields[3]) || s.about.MatchString(fields[4])) {
			s.note("mount on %s", fields[4])
		}
	}
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, loop := range loops {
		text, _ := os.ReadFile(loop)
		path := strings.TrimSpace(string(text))
		if s.owns(path) || strings.HasPrefix(path, "/home/"+s.name+"/") {
			s.note("loop device %s on %s", strings.Split(loop, "/")[3], path)
		}
	}
	return err
}

// idleMiB is the memory that a driver uses on an idle GPU. Drivers that count their own memory
// separately report 0 or 1, older ones some hundred.
const idleMiB = 700

func (s *search) devices(ctx context.Context) error {
	if len(s.gpus) == 0 {
		return nil
	}
	hardware, err := s.Hardware(ctx)
	if err != nil {
		return err
	}
	for _, uuid := range s.gpus {
		i := slices.IndexFunc(hardware.GPUs, func(g protocol.GPU) bool { return g.UUID == uuid })
		switch {
		case i < 0:
			s.note("GPU %s is not on this host", uuid)
		case hardware.GPUs[i].Processes > 0:
			s.note("%d processes use GPU %s", hardware.GPUs[i].Processes, uuid)
		case hardware.GPUs[i].UsedMiB > idleMiB:
			s.note("%d MiB of GPU %s are in use", hardware.GPUs[i].UsedMiB, uuid)
		}
	}
	return nil
}

// namespaceOwner reads the uid that has made a user namespace.
func namespaceOwner(f *os.File, uid *uint32) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.NS_GET_OWNER_UID, uintptr(unsafe.Pointer(uid))); errno != 0 { //nolint:gosec // the kernel's interface
		return errno
	}
	return nil
}
