package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

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
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 1 || foreign.MatchString(right[0]) || seen[left[2]+left[3]] {
			continue
		}
		seen[left[2]+left[3]] = true
		if err := s.mounted(ctx, unescape.Replace(left[4])); err != nil {
			return err
		}
	}
	return nil
}

// unescape decodes a path of the mount table.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mounted searches one mounted file system. A clone of the mount shows it without the mounts on it, so a
// mounted file system that hangs does not block the scan, and no file is hidden.
func (s *search) mounted(ctx context.Context, point string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, point, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil // unmounted meanwhile
	} else if err != nil {
		return fmt.Errorf("opening the file system on %s: %w", point, err)
	}
	defer func() { _ = unix.Close(fd) }()
	return s.tree(ctx, fd, point)
}

// foreign file systems are lists of the kernel, or belong to other computers.
var foreign = regexp.MustCompile(`^(proc|sysfs|cgroup2?|securityfs|debugfs|tracefs|pstore|efivarfs|configfs|fusectl|binfmt_misc|autofs|rpc_pipefs|nfsd?4?|nsfs|cifs|smb3|9p|ceph|lustre|gpfs|beegfs|afs|fuse|fuse\..*)$`)

// file checks one entry of the folder dir.
func (s *search) file(dir int, path, name string, stat *unix.Stat_t) {
	switch {
	case int(stat.Uid) == s.uid:
		s.note("file %s", path)
	case s.isOther(int(stat.Uid)): // the names and rights that another tenant gives its files prove nothing
	case int(stat.Gid) == s.uid:
		s.note("file %s of the tenant's group", path)
	case s.named(dir, path, name, stat):
		s.note("file %s is about the tenant", path)
	case s.permitted(dir, name):
		s.note("file %s gives the tenant access", path)
	}
}

func (s *search) named(dir int, path, name string, stat *unix.Stat_t) bool {
	under := func(dir string) bool { return strings.HasPrefix(path, dir) }
	if !slices.ContainsFunc(ledgers, under) {
		return false
	}
	if s.about.MatchString(name) {
		return true
	}
	const longest = 1 << 20
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Size > longest || !slices.ContainsFunc(ordered, under) {
		return false
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, longest))
	return err == nil && s.about.Match(text)
}

// permitted returns whether an access list has the uid in it.
func (s *search) permitted(dir int, name string) bool {
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir, name)
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
