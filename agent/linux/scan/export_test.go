package scan

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// Below searches the tree below a folder as a scan does in a file system. over lists the tenants whose folders
// exceed the limits.
func Below(ctx context.Context, name string, uid int, dir string) (found []string, over []int, err error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	s := newSearch(name, uid, nil)
	err = s.tree(ctx, fd, dir)
	return slices.Sorted(maps.Keys(s.found)), s.over(), err
}

// UsesOf searches a table of links of a process of owner.
func UsesOf(ctx context.Context, uid int, table string, owner int) (found []string, over []int, err error) {
	s := newSearch("t-none", uid, nil)
	err = s.usesOf(ctx, table, "1 (x)", owner)
	return slices.Sorted(maps.Keys(s.found)), s.over(), err
}

// OwnerOf returns the owner of a process by its status.
func OwnerOf(status []byte) int { return ownerOf(status) }

// SocketsIn searches a table of sockets of the kernel.
func SocketsIn(uid int, kind, table string) []string {
	s := newSearch("t-none", uid, nil)
	s.socketsOf(kind, table)
	return slices.Sorted(maps.Keys(s.found))
}
