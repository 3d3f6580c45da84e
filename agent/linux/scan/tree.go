package scan

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// folder is one folder on the way down a tree.
type folder struct {
	name string
	stat unix.Stat_t
	next []string // its subfolders that were not searched
}

// descent searches one tree with one open folder. Paths are not joined, because a tenant may make a path
// that is longer than the kernel accepts; it returns by "..", because a tree may be deeper than the number
// of descriptors.
type descent struct {
	*search

	ctx  context.Context //nolint:containedctx // of the one call that makes the descent
	root int
	at   int // the open folder
	way  []folder
	buf  []byte
}

// tree searches everything below the folder root.
func (s *search) tree(ctx context.Context, root int, point string) error {
	const block = 64 << 10
	d := &descent{search: s, ctx: ctx, root: root, at: -1, buf: make([]byte, block)}
	defer func() {
		if d.at >= 0 {
			_ = unix.Close(d.at)
		}
	}()
	err := d.open(root, ".")
	if errors.Is(err, unix.ENOTDIR) {
		return nil // a file that is mounted on a file
	} else if err != nil {
		return fmt.Errorf("%s: %w", point, err)
	}
	d.way[0].name = strings.TrimSuffix(point, "/")
	d.file(root, point, ".", &d.way[0].stat)
	err = d.list()
	for err == nil && len(d.way) > 0 {
		last := &d.way[len(d.way)-1]
		if n := len(last.next) - 1; n >= 0 {
			name := last.next[n]
			last.next = last.next[:n]
			err = d.into(name)
			continue
		}
		err = d.back()
	}
	return err
}

// path is that of an entry of the open folder, for rules and messages.
func (d *descent) path(name string) string {
	const longest = 100
	var b strings.Builder
	for _, f := range d.way[:min(len(d.way), longest)] {
		b.WriteString(f.name)
		b.WriteByte('/')
	}
	return b.String() + name
}

// fault returns an error that fails the scan, or nil for what does not exist. An error in what another
// tenant owns counts against it.
func (d *descent) fault(uid int, name string, err error) error {
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if d.isOther(uid) {
		d.spend(uid, 1, d.clock.Now())
		return nil
	}
	return fmt.Errorf("%s: %w", d.path(name), err)
}

const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK

// open makes a folder below dir the open one.
func (d *descent) open(dir int, name string) error {
	fd, err := unix.Openat(dir, name, folderFlags, 0)
	if err != nil {
		return err
	}
	f := folder{name: name}
	if err := unix.Fstat(fd, &f.stat); err != nil {
		_ = unix.Close(fd)
		return err
	}
	if d.at >= 0 {
		_ = unix.Close(d.at)
	}
	d.at, d.way = fd, append(d.way, f)
	return nil
}

func (d *descent) into(name string) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(d.at, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return d.fault(int(d.way[len(d.way)-1].stat.Uid), name, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || d.isOver(int(stat.Uid)) {
		return nil // replaced meanwhile by what its owner has now, or beyond the limits
	}
	if err := d.open(d.at, name); err != nil {
		return d.fault(int(stat.Uid), name, err)
	}
	return d.list()
}

// list checks each entry of the open folder.
func (d *descent) list() error {
	last := &d.way[len(d.way)-1]
	uid := int(last.stat.Uid)
	for !d.isOver(uid) {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		began := d.clock.Now()
		n, err := unix.ReadDirent(d.at, d.buf)
		if err != nil || n <= 0 {
			return d.fault(uid, "", err)
		}
		_, _, names := unix.ParseDirent(d.buf[:n], -1, nil)
		for _, name := range names {
			if err := d.check(last, name); err != nil {
				return err
			}
		}
		d.spend(uid, len(names), began)
	}
	last.next = nil
	return nil
}

func (d *descent) check(last *folder, name string) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(d.at, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return d.fault(int(last.stat.Uid), name, err)
	}
	d.file(d.at, d.path(name), name, &stat)
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		last.next = append(last.next, name)
	}
	return nil
}

// back returns to the folder above. If the open folder was moved meanwhile, it goes down from the root again.
func (d *descent) back() error {
	left := d.way[len(d.way)-1]
	if d.way = d.way[:len(d.way)-1]; len(d.way) == 0 {
		return nil
	}
	began := d.clock.Now()
	if fd, err := unix.Openat(d.at, "..", folderFlags, 0); err == nil {
		_ = unix.Close(d.at)
		if d.at = fd; same(fd, &d.way[len(d.way)-1].stat) {
			return nil
		}
	}
	if err := d.fault(int(left.stat.Uid), left.name, unix.ESTALE); err != nil {
		return err
	}
	err := d.again()
	d.spend(int(left.stat.Uid), len(d.way), began)
	return err
}

func same(fd int, want *unix.Stat_t) bool {
	var have unix.Stat_t
	return unix.Fstat(fd, &have) == nil && have.Ino == want.Ino && have.Dev == want.Dev
}

// again opens the last folder of the way from the root, and cuts the way where a folder was moved.
func (d *descent) again() error {
	way := d.way
	d.way = nil
	for i, f := range way {
		dir, name := d.at, f.name
		if i == 0 {
			dir, name = d.root, "."
		}
		err := d.open(dir, name)
		if err == nil && !same(d.at, &f.stat) {
			d.way, err = d.way[:i], unix.ESTALE
		}
		if err != nil {
			return d.restart(i, f, err)
		}
		d.way[i].name, d.way[i].next = f.name, f.next
	}
	return nil
}

// restart continues with the folders above one that was moved. The way to them was open a moment ago.
func (d *descent) restart(i int, f folder, err error) error {
	if i == 0 {
		return err
	}
	if err := d.fault(int(f.stat.Uid), f.name, err); err != nil {
		return err
	}
	return d.again()
}
