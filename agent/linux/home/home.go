// Package home creates, grows and destroys the homes of tenants. It does not decide who has one.
package home

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/step"
)

// Homes creates and destroys homes. A home is an image with its own file system, so its size is the
// quota. The content is encrypted, if the kernel can, with a key that only the kernel has: a restart of
// the host OS ends the home, and removing the key erases it. The image also contains the /tmp,
// /var/tmp and /run/screen of the tenant.
//
// systemd mounts the image by a unit in memory. The home survives the agent, and no start of the host OS
// mounts a home before a task has checked it.
//
// The home directory of the tenant is a link into the image, through a folder of root that only the
// tenant can pass. A tenant may open its own directory to all users, and no other user reaches it.
type Homes struct{ *hostos.OS }

// paths are the files of one home.
type paths struct {
	image, plain        string // plain exists next to an image that is not encrypted
	disk, data, homeDir string // where it is mounted; the sealed folder; the home directory in it
	home                string // the link
}

func pathsOf(name string) paths {
	disk := filepath.Join(hostos.HomesDir, name)
	return paths{
		image: disk + ".img", plain: disk + ".plain",
		disk: disk, data: filepath.Join(disk, "data"), homeDir: filepath.Join(disk, "data/home"), home: hostos.HomeOf(name),
	}
}

const (
	gib = 1 << 30
	// homesShare is the part of the disk, in percent, that homes are given.
	homesShare = 80
)

// Inspect reads the state of a home, and names what differs from how Ensure made it.
func (h *Homes) Inspect(name string, mounts map[string]hostos.Mounted) (home step.Home, wrong []string) {
	p := pathsOf(name)
	info, err := os.Stat(h.Path(p.image))
	if err != nil {
		return step.Home{}, nil
	}
	disk := mounts[p.disk]
	target, err := hostos.ReadLink(h.Path(p.home))
	open := disk.Kind == "ext4" && err == nil && target == p.homeDir
	home = step.Home{GiB: info.Size() / gib, Open: open, Lost: !open && !h.Exists(p.plain), Sealed: !h.Exists(p.plain)}
	if open && !disk.Harmless() {
		wrong = append(wrong, fmt.Sprintf("home: %s is mounted with %s, expected nodev and nosuid", p.disk, disk.Options))
	}
	return home, wrong
}

// Ensure makes the home of an account. Size is in GiB; zero means the share of one GPU, and gpus returns their
// number. Ensure grows a home that is too small. A home never shrinks.
func (h *Homes) Ensure(ctx context.Context, name string, uid int, size int64, gpus func(context.Context) (int, error)) error {
	mounts, err := h.Mounts()
	if err != nil {
		return err
	}
	have, wrong := h.Inspect(name, mounts)
	if size == 0 {
		if size, err = h.fairSize(ctx, have, gpus); err != nil {
			return err
		}
	}
	switch {
	case have.Open && len(wrong) > 0:
		return fmt.Errorf("%s: another mount replaces it", wrong[0])
	case have.Open && have.GiB < size:
		return h.grow(ctx, name, mounts[pathsOf(name).disk].Source, size)
	case have.Open: // a home never shrinks
		return nil
	}
	if err := h.create(ctx, name, size); err != nil {
		return err
	}
	return h.open(ctx, name, uid)
}

// fairSize returns the size of a home if the task does not specify one: the share of the disk for
// its GPUs.
func (h *Homes) fairSize(ctx context.Context, have step.Home, gpus func(context.Context) (int, error)) (int64, error) {
	if have.GiB > 0 {
		return have.GiB, nil
	}
	total, err := h.diskSize()
	if err != nil {
		return 0, err
	}
	n, err := gpus(ctx)
	if err != nil {
		return 0, err
	}
	return max(1, total*homesShare/100/int64(max(1, n))/gib), nil
}

func (h *Homes) diskSize() (int64, error) {
	if err := h.Folder(hostos.HomesDir, hostos.DirMode); err != nil {
		return 0, err
	}
	if err := h.passable(filepath.Dir(hostos.HomesDir)); err != nil {
		return 0, err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(h.Path(hostos.HomesDir), &fs); err != nil {
		return 0, fmt.Errorf("measuring the disk of homes: %w", err)
	}
	return int64(fs.Blocks) * fs.Frsize, nil //nolint:gosec // no disk has 2^63 blocks
}

// passable allows all users to traverse a folder, and does not allow them to list it.
func (h *Homes) passable(name string) error {
	info, err := os.Stat(h.Path(name))
	if err != nil {
		return err
	}
	return os.Chmod(h.Path(name), info.Mode().Perm()|hostos.DirMode&0o011)
}

// create makes the image, unless there is one that can still be read.
func (h *Homes) create(ctx context.Context, name string, size int64) error {
	p := pathsOf(name)
	if err := h.close(ctx, name); err != nil {
		return err
	}
	if h.Exists(p.image) && h.Exists(p.plain) {
		return nil
	}
	for _, file := range []string{p.image, p.plain} { // its key is gone, or it never was whole
		if _, err := h.Remove(file); err != nil {
			return err
		}
	}
	if err := h.checkSpace(p.image, size); err != nil {
		return err
	}
	temp := p.image + ".new"
	if _, err := h.Remove(temp); err != nil {
		return err
	}
	if err := blank(h.Path(temp), size*gib); err != nil {
		return fmt.Errorf("making the image of %s: %w", name, err)
	}
	// No blocks are reserved for root, because the tenant pays for them.
	if _, err := h.Command(ctx, hostos.Mkfs, "-q", "-F", "-O", "encrypt", "-m", "0", h.Path(temp)); err != nil {
		return fmt.Errorf("making the file system of %s: %w", name, err)
	}
	return os.Rename(h.Path(temp), h.Path(p.image))
}

// checkSpace rejects a home that the disk could not store together with the others when all are full,
// because a full disk affects every tenant. An image that grows counts with its new size only.
func (h *Homes) checkSpace(of string, size int64) error {
	total, err := h.diskSize()
	if err != nil {
		return err
	}
	images, err := filepath.Glob(h.Path(hostos.HomesDir, "*.img"))
	if err != nil {
		return err
	}
	promised := size * gib
	for _, image := range images {
		if info, err := os.Stat(image); err == nil && image != h.Path(of) {
			promised += info.Size()
		}
	}
	const mostShare = 95 // percent; the rest belongs to the host OS
	if promised > total/100*mostShare {
		return fmt.Errorf("a home directory of %d GiB does not fit: %d GiB of %d would be assigned", size, promised/gib, total/gib)
	}
	return nil
}

func blank(path string, bytes int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(bytes), file.Sync(), file.Close())
}

// open mounts the image and shows the tenant what is the tenant's of it.
func (h *Homes) open(ctx context.Context, name string, uid int) error {
	p := pathsOf(name)
	if err := h.Folder(p.disk, hostos.OwnMode); err != nil {
		return err
	}
	unit := fmt.Sprintf("[Unit]\nDescription=Disk of tenant %s\n[Mount]\nWhat=%s\nWhere=%s\nType=ext4\nOptions=loop,nodev,nosuid,noatime,discard\n", name, p.image, p.disk)
	if _, err := h.Put(filepath.Join(hostos.RunUnitDir, hostos.MountUnit(p.disk)), []byte(unit), hostos.ConfigMode, 0); err != nil {
		return err
	}
	if err := h.Reload(ctx); err != nil {
		return err
	}
	if _, err := h.Command(ctx, hostos.Systemctl, "start", hostos.MountUnit(p.disk)); err != nil {
		return fmt.Errorf("mounting the disk of %s: %w", name, err)
	}
	if err := h.populate(p, uid); err != nil {
		return fmt.Errorf("furnishing the home of %s: %w", name, err)
	}
	if target, err := hostos.ReadLink(h.Path(p.home)); err == nil && target == p.homeDir {
		return nil
	}
	if _, err := h.Remove(p.home); err != nil { // an empty folder; a full one belongs to another user and fails this
		return err
	}
	return hostos.MakeLink(p.homeDir, h.Path(p.home))
}

// populate makes what is in a fresh image; in one that was used it finds all there.
func (h *Homes) populate(p paths, uid int) error {
	const ownGroup = 0o710 // the tenant passes, and sees nothing
	if err := own(h.Path(p.disk), 0, uid, ownGroup); err != nil {
		return err
	}
	if err := h.Folder(p.data, 0o711); err != nil {
		return err
	}
	if !h.Exists(p.plain) && !h.Exists(p.homeDir) {
		err := seal(h.Path(p.data))
		if errors.Is(err, errors.ErrUnsupported) {
			_, err = h.Put(p.plain, nil, 0o600, 0)
		}
		if err != nil {
			return err
		}
	}
	for _, dir := range tmpDirs {
		// pam_namespace makes the account's own folder in it, and demands this mode.
		if err := h.Folder(filepath.Join(p.data, dir), 0); err != nil {
			return err
		}
	}
	if h.Exists(p.homeDir) {
		return nil
	}
	temp := filepath.Join(p.data, ".home")
	if err := os.RemoveAll(h.Path(temp)); err != nil {
		return err
	}
	if err := h.Folder(temp, 0o700); err != nil {
		return err
	}
	if err := h.copySkeleton(temp, uid); err != nil {
		return err
	}
	return os.Rename(h.Path(temp), h.Path(p.homeDir))
}

// tmpDirs are the folders in the image that replace /tmp, /var/tmp and /run/screen.
var tmpDirs = []string{"tmp", "vartmp", "screen"}

// copySkeleton copies the first files of the host OS into a home, and gives them to the tenant.
func (h *Homes) copySkeleton(dir string, uid int) error {
	const skeleton = "/etc/skel"
	entries, err := os.ReadDir(h.Path(skeleton))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		text, err := h.Read(filepath.Join(skeleton, e.Name()))
		if err != nil {
			return err
		}
		path := h.Path(dir, e.Name())
		const skeletonMode = 0o644
		if err := errors.Join(os.WriteFile(path, text, skeletonMode), os.Chmod(path, skeletonMode)); err != nil {
			return err
		}
		if err := give(path, uid); err != nil {
			return err
		}
	}
	return give(h.Path(dir), uid)
}

// give makes a file the tenant's, where we may.
func give(path string, uid int) error {
	if os.Geteuid() != 0 {
		return nil // a test's own user
	}
	return os.Lchown(path, uid, uid)
}

func own(path string, uid, gid int, mode os.FileMode) error {
	if os.Geteuid() == 0 {
		if err := os.Lchown(path, uid, gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}

// grow makes an open home larger. Its tenant may be at work in it.
func (h *Homes) grow(ctx context.Context, name, loop string, size int64) error {
	p := pathsOf(name)
	if !strings.HasPrefix(loop, "/dev/loop") {
		return fmt.Errorf("the disk of %s is %s and no image", name, loop)
	}
	if err := h.checkSpace(p.image, size); err != nil {
		return err
	}
	if err := os.Truncate(h.Path(p.image), size*gib); err != nil {
		return fmt.Errorf("growing the image of %s: %w", name, err)
	}
	device, err := os.OpenFile(h.Path(loop), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("growing the disk of %s: %w", name, err)
	}
	err = errors.Join(unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_CAPACITY, 0), device.Close())
	if err == nil {
		_, err = h.Command(ctx, hostos.Resize2fs, loop)
	}
	if err != nil {
		return fmt.Errorf("growing the disk of %s: %w", name, err)
	}
	return nil
}

// Destroy removes the key of a home first, then the home.
func (h *Homes) Destroy(ctx context.Context, name string) error {
	p := pathsOf(name)
	if err := unseal(h.Path(p.data)); err != nil {
		return err
	}
	if err := h.close(ctx, name); err != nil {
		return err
	}
	// It is memory, and so not in the image.
	if err := os.RemoveAll(h.Path(hostos.ShmDir, name)); err != nil {
		return fmt.Errorf("removing shared files of %s: %w", name, err)
	}
	if err := h.punch(p.image); err != nil {
		return fmt.Errorf("erasing the image of %s: %w", name, err)
	}
	for _, file := range []string{p.image, p.image + ".new", p.plain, p.disk, p.home} {
		if _, err := h.Remove(file); err != nil { // a folder that is not empty stays, and fails this
			return err
		}
	}
	return nil
}

// punch returns the blocks of an image to the disk at once. A process that still has the image open
// reads zeros.
func (h *Homes) punch(image string) error {
	file, err := os.OpenFile(h.Path(image), os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return errors.Join(file.Truncate(0), file.Close())
}

// close unmounts it and removes its unit.
func (h *Homes) close(ctx context.Context, name string) error {
	p := pathsOf(name)
	mounts, err := h.Mounts()
	if err != nil {
		return err
	}
	if _, exists := mounts[p.disk]; exists {
		if _, err := h.Command(ctx, hostos.Systemctl, "stop", hostos.MountUnit(p.disk)); err != nil {
			return fmt.Errorf("unmounting %s: %w", p.disk, err)
		}
	}
	gone, err := h.Remove(filepath.Join(hostos.RunUnitDir, hostos.MountUnit(p.disk)))
	if err != nil {
		return err
	}
	if gone {
		if err := h.Reload(ctx); err != nil {
			return err
		}
	}
	if mounts, err = h.Mounts(); err != nil {
		return err
	}
	if _, exists := mounts[p.disk]; exists {
		return fmt.Errorf("%s is still mounted: %w", p.disk, syscall.EBUSY)
	}
	return nil
}
