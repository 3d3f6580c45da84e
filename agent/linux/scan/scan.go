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

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/protocol"
)

// search is one leftover scan for one tenant. It shares no code with the steps that remove, because
// a fault in shared code would hide its own leftovers.
type search struct {
	name string
	uid  int
	gpus []string

	Sources

	about *regexp.Regexp // the name or the uid, delimited in a text
	found map[string]bool
	spent map[int]*budget // in what other tenants own, by uid
	clock clock.Clock
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
	// Skipped receives the uid of another tenant whose folders or descriptors exceed the limits of a scan.
	// It may be nil.
	Skipped func(uid int)
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
		name: name, uid: uid, gpus: gpus, found: map[string]bool{}, spent: map[int]*budget{},
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
	for _, uid := range s.over() {
		if s.Skipped != nil {
			s.Skipped(uid)
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

func (s *search) controlGroups(ctx context.Context) error {
	return filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			return err
		}
		if err != nil || !d.IsDir() {
			return ctx.Err()
		}
		if s.owns(path) || strings.HasPrefix(d.Name(), fmt.Sprintf("user-%d.slice", s.uid)) || strings.HasPrefix(d.Name(), fmt.Sprintf("user@%d.", s.uid)) ||
			strings.HasPrefix(d.Name(), "gpuaas-mount") && s.about.MatchString(d.Name()) {
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
// left. The size of a key is in the kernel's count of the uid.
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
		s.socketsOf(kind, string(text))
	}
	return nil
}

func (s *search) socketsOf(kind, table string) {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 7 && fields[7] == strconv.Itoa(s.uid) && !closing(kind, fields) {
			s.note("%s socket on %s", kind, fields[1])
		}
	}
}

// closing reports whether only the kernel still has a TCP socket: no process can open it again, and it waits for a peer
// that is away, for minutes. Kernels before 6.17 list it without its uid.
func closing(kind string, fields []string) bool {
	const state, inode = 3, 9
	ends := []string{"04", "05", "09", "0B"} // FIN-WAIT-1, FIN-WAIT-2, LAST-ACK, CLOSING
	return strings.HasPrefix(kind, "tcp") && len(fields) > inode && fields[inode] == "0" && slices.Contains(ends, fields[state])
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
			s.note("GPU %s is not on this node", uuid)
		case hardware.GPUs[i].Processes > 0:
			s.note("%d processes use GPU %s", hardware.GPUs[i].Processes, uuid)
		case hardware.GPUs[i].UsedMiB > idleMiB:
			s.note("%d MiB of GPU %s are in use", hardware.GPUs[i].UsedMiB, uuid)
		}
	}
	return nil
}
