package hostos

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxFile is far above the size of every file that this package writes or compares.
const maxFile = 4 << 20

// Read returns a file's content; one that is not there has none.
func (o *OS) Read(name string) ([]byte, error) {
	file, err := os.Open(o.Path(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read only
	// Most files of the kernel are read with two calls.
	content := bytes.NewBuffer(make([]byte, 0, 4<<10))
	_, err = content.ReadFrom(io.LimitReader(file, maxFile))
	return content.Bytes(), err
}

// Text is a file's content without the space around it, empty where it cannot be
// read: for the kernel's own files, which a tenant cannot write.
func (o *OS) Text(name string) string {
	content, err := o.Read(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// Put writes a file with exactly this content, owner root, group and mode. changed is false if the file
// had them already. A reader sees the old content or the new one. The file is on disk when Put returns.
func (o *OS) Put(name string, content []byte, mode os.FileMode, gid int) (changed bool, err error) {
	if o.Holds(name, content, mode, gid) {
		return false, nil
	}
	path := o.Path(name)
	dir := filepath.Dir(path)
	if err := way(dir); err != nil {
		return false, fmt.Errorf("writing %s: %w", name, err)
	}
	temp, err := os.CreateTemp(dir, ".gpuaas-")
	if err != nil {
		return false, fmt.Errorf("writing %s: %w", name, err)
	}
	defer func() { _ = os.Remove(temp.Name()) }() // where it was not renamed
	err = fill(temp, content, mode, gid)
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return false, fmt.Errorf("writing %s: %w", name, err)
	}
	return true, nil
}

func (o *OS) Holds(name string, content []byte, mode os.FileMode, gid int) bool {
	info, err := os.Lstat(o.Path(name))
	if err != nil || info.Mode() != mode {
		return false // a link in its place is not it either
	}
	if uid, group := OwnerOf(info); o.Root == "" && (uid != 0 || group != gid) {
		return false
	}
	have, err := o.Read(name)
	return err == nil && bytes.Equal(have, content)
}

func fill(file *os.File, content []byte, mode os.FileMode, gid int) error {
	_, err := file.Write(content)
	if os.Geteuid() == 0 && err == nil { // a test's own user cannot give files away
		err = file.Chown(0, gid)
	}
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// way creates the missing folders down to dir with access for all users, because daemons of other
// users and tenants pass through them. The umask of this process would restrict them.
func way(dir string) error {
	const open = 0o755
	err := os.Mkdir(dir, open)
	switch {
	case err == nil:
		return os.Chmod(dir, open)
	case errors.Is(err, os.ErrExist):
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if err := way(filepath.Dir(dir)); err != nil {
		return err
	}
	return way(dir)
}

// Remove removes a file, also one that is gone.
func (o *OS) Remove(name string) (changed bool, err error) {
	err = os.Remove(o.Path(name))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("removing %s: %w", name, err)
	}
	return true, syncDir(filepath.Dir(o.Path(name)))
}

// Folder makes a root-owned folder with the mode.
func (o *OS) Folder(name string, mode os.FileMode) error {
	path := o.Path(name)
	if err := way(filepath.Dir(path)); err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("making %s: %w", name, err)
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return fmt.Errorf("making %s: %w", name, err)
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", name)
	case info.Mode().Perm() == mode.Perm():
		return nil
	}
	return os.Chmod(path, mode) // past the umask
}

func (o *OS) Exists(name string) bool {
	_, err := os.Lstat(o.Path(name))
	return err == nil
}

// OwnerOf returns the owner of a file, or -1 if the file system does not report one.
func OwnerOf(info os.FileInfo) (uid, gid int) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), int(stat.Gid)
	}
	return -1, -1
}

func ReadLink(path string) (string, error) { return os.Readlink(path) }

func MakeLink(to, path string) error {
	if err := way(filepath.Dir(path)); err != nil {
		return err
	}
	return os.Symlink(to, path)
}

// Lines calls each with every line of a file. One that is not there has none.
func (o *OS) Lines(name string, each func(string)) error {
	file, err := os.Open(o.Path(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // read only
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		each(lines.Text())
	}
	return lines.Err()
}
