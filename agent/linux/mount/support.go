package mount

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/protocol"
)

// Support finds out whether a node can mount. The zero value is ready.
type Support struct {
	mu      sync.Mutex
	file    string // whose version was read: size and time
	version string // why it is not usable; empty if it is
}

// The oldest rclone whose cache this package reads.
const oldestMajor, oldestMinor = 1, 60

// Of returns whether the node can mount, and the first program or device that it lacks.
func (s *Support) Of(ctx context.Context, o *hostos.OS) protocol.MountSupport {
	missing := s.rclone(ctx, o)
	if info, err := os.Stat(o.Path(string(hostos.Fusermount))); missing == "" && (err != nil || info.Mode()&fs.ModeSetuid == 0) {
		missing = "fusermount3 with the rights of root (package fuse3)"
	}
	for _, tool := range []hostos.Tool{hostos.Mkdir, hostos.Grep} {
		if _, err := os.Stat(o.Path(string(tool))); missing == "" && err != nil {
			missing = string(tool)
		}
	}
	const everybody = 0o666
	if info, err := os.Stat(o.Path("/dev/fuse")); missing == "" && (err != nil || info.Mode().Perm()&everybody != everybody) {
		missing = "/dev/fuse for all users (kernel module fuse)"
	}
	return protocol.MountSupport{Supported: missing == "", Missing: missing}
}

// rclone runs the program only after a change of its file.
func (s *Support) rclone(ctx context.Context, o *hostos.OS) string {
	wanted := fmt.Sprintf("rclone %d.%d or newer", oldestMajor, oldestMinor)
	info, err := os.Stat(o.Path(string(hostos.Rclone)))
	if err != nil {
		return wanted
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	file := fmt.Sprint(info.Size(), info.ModTime().UnixNano())
	if s.file == file {
		return s.version
	}
	out, err := o.Command(ctx, hostos.Rclone, "version", "--config=/dev/null")
	if err != nil {
		return wanted + " that runs: " + err.Error()
	}
	s.file, s.version = file, ""
	if have, ok := usable(string(out)); !ok {
		s.version = wanted + ", not " + have
	}
	return s.version
}

var versionLine = regexp.MustCompile(`^rclone v(\d+)\.(\d+)`)

// usable returns the version that rclone prints, and whether it is new enough.
func usable(out string) (version string, ok bool) {
	line := hostos.FirstLine(out)
	v := versionLine.FindStringSubmatch(line)
	if v == nil {
		return strconv.Quote(line), false
	}
	major, bad := strconv.Atoi(v[1])
	minor, worse := strconv.Atoi(v[2])
	ok = bad == nil && worse == nil && (major > oldestMajor || major == oldestMajor && minor >= oldestMinor)
	return strings.TrimPrefix(v[0], "rclone v"), ok
}
