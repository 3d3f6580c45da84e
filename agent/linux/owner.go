package linux

import (
	"os"
	"path/filepath"
	"syscall"
)

// ownerOf is who owns a file; nobody, where the file system does not say.
func ownerOf(info os.FileInfo) (uid, gid int) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), int(stat.Gid)
	}
	return -1, -1
}

func readLink(path string) (string, error) { return os.Readlink(path) }

func makeLink(to, path string) error {
	if err := way(filepath.Dir(path)); err != nil {
		return err
	}
	return os.Symlink(to, path)
}
