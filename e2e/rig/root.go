package rig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// errUnable means that containers cannot be booted here. The error that wraps it contains the reason.
var errUnable = errors.New("this machine boots no containers")

// suite is Debian 12, the oldest release that a node may run.
const suite = "bookworm"

// packages lists the packages of a container. A node needs the first lines; the last lines plant
// leftovers and search for them, and are what tenants use over SSH.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "udev", "libpam-systemd", "openssh-server", "openssh-client", "sudo", "kmod", "procps", "passwd", "login",
	"iproute2", "iputils-ping", "nftables", "e2fsprogs", "util-linux", "curl", "ca-certificates", "polkitd",
	"fuse3", "rclone",
	"cron", "at", "acl", "attr", "keyutils", "libcap2-bin", "psmisc", "python3-minimal",
	"rsync", "git",
}

// recipe is part of the cache key. A new value rebuilds the root file system after a change of
// anything except the packages.
const recipe = "1"

// able checks whether the kernel, the user and the tools can boot a container.
func able() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: only root may start containers", errUnable)
	}
	for _, tool := range []string{"systemd-nspawn", "unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %s is not installed (scripts/install-deps.sh --rig)", errUnable, tool)
		}
	}
	if len(hierarchies()) == 0 {
		return fmt.Errorf("%w: no control groups of version 2 are mounted", errUnable)
	}
	return nil
}

// Root returns the folder of the root file system, which is built once per list of packages.
// GPUAAS_RIG_ROOT selects another folder.
func Root(ctx context.Context) (string, error) {
	if err := able(); err != nil {
		return "", err
	}
	if dir := os.Getenv("GPUAAS_RIG_ROOT"); dir != "" {
		return dir, nil
	}
	cache, err := cache()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(suite + recipe + strings.Join(packages, ",")))
	dir := filepath.Join(cache, "root-"+hex.EncodeToString(sum[:6]))
	// Several test binaries start at once and need the same folder, so the first one locks it.
	lock, err := lockFile(filepath.Join(cache, "root.lock"), syscall.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, build(ctx, dir)
}

// build uses a temporary name first, because later runs would otherwise use an incomplete root file
// system.
func build(ctx context.Context, dir string) error {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return fmt.Errorf("%w: mmdebstrap is not installed (scripts/install-deps.sh --rig)", errUnable)
	}
	temp := dir + ".building"
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("clearing a half-built root file system: %w", err)
	}
	//nolint:gosec // of this package's own choice
	out, err := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--variant=minbase", "--include="+strings.Join(packages, ","), suite, temp).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: its root file system cannot be built: %w\n%s", errUnable, err, out)
	}
	for _, unit := range nothingToDo {
		if err := os.Symlink("/dev/null", filepath.Join(temp, "etc/systemd/system", unit)); err != nil {
			return fmt.Errorf("masking %s: %w", unit, err)
		}
	}
	if err := os.Rename(temp, dir); err != nil {
		return fmt.Errorf("keeping the root file system: %w", err)
	}
	return nil
}

// nothingToDo lists units that would wait or fail in a container.
var nothingToDo = []string{"networking.service", "systemd-udevd.service", "apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_reap.service"}

func cache() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnable, err)
	}
	dir = filepath.Join(dir, "gpuaas", "rig")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // users inside the hosts read their root file system
		return "", fmt.Errorf("making the folder of the containers: %w", err)
	}
	return dir, nil
}

func lockFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return f, nil
}
