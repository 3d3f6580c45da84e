package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func ptr(text string) unsafe.Pointer {
	b, err := unix.BytePtrFromString(text)
	if err != nil {
		return nil
	}
	return unsafe.Pointer(b)
}

func ignore() { signal.Ignore(syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGWINCH) }

// places are the folders in which a tenant may make files.
func places() (dirs []string) {
	home, err := os.UserHomeDir()
	if err == nil {
		dirs = append(dirs, home)
	}
	return append(dirs, "/tmp", "/var/tmp", "/dev/shm")
}

// deepTrees makes folders that are deeper than a path is long and than a process has descriptors.
func deepTrees() error {
	for _, place := range places() {
		dir, err := os.MkdirTemp(place, "deep-")
		if err != nil {
			return err
		}
		fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY, 0)
		for range scale(20000) {
			if err != nil {
				break
			}
			var below int
			if err = unix.Mkdirat(fd, "d", 0o700); err == nil {
				below, err = unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_RDONLY, 0)
				_ = unix.Close(fd)
				fd = below
			}
		}
		if err != nil {
			return fmt.Errorf("in %s: %w", dir, err)
		}
	}
	return nil
}

// fifos puts pipes without a writer where a program that reads would wait for ever.
func fifos() error {
	for _, place := range places() {
		dir, err := os.MkdirTemp(place, "fifos-")
		if err != nil {
			return err
		}
		for i := range 2000 {
			if err := unix.Mkfifo(filepath.Join(dir, fmt.Sprint(i)), 0o666); err != nil {
				return err
			}
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	_ = os.Mkdir(filepath.Join(home, ".ssh"), 0o700)
	for _, name := range []string{".ssh/authorized_keys", ".ssh/rc", ".ssh/environment", ".hushlogin", ".pam_environment", ".profile", ".forward"} {
		path := filepath.Join(home, name)
		_ = os.Remove(path)
		if err := unix.Mkfifo(path, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// files makes as many small files as it can in some seconds in each folder.
func files() error {
	for _, place := range places() {
		dir, err := os.MkdirTemp(place, "files-")
		if err != nil {
			return err
		}
		n := 0
		one := func() error {
			n++
			sub := filepath.Join(dir, fmt.Sprint(n/1000))
			if n%1000 == 1 {
				_ = os.MkdirAll(sub, 0o700)
			}
			fd, err := unix.Open(filepath.Join(sub, fmt.Sprint(n)), unix.O_CREAT|unix.O_WRONLY, 0o600)
			if err != nil {
				return nil // full: the quota of the tenant
			}
			return unix.Close(fd)
		}
		if err := within(time.Duration(scale(2))*time.Second, one); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%d files in %s\n", n, place)
	}
	return nil
}

// mounts fills a mount table, if a user may make one.
func mounts() error {
	c := exec.Command("unshare", "-Urm", "sh", "-c", `for i in $(seq 5000); do mount -t tmpfs none /mnt || break; done; echo mounted; exec sleep 1000`)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return err
	}
	_, _ = out.Read(make([]byte, 10)) // or it ends, where users may not
	return nil
}

// fuse opens the device by which a tenant would answer each read of a file itself, or never.
func fuse() error {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR, 0)
	if err == nil {
		_ = unix.Close(fd)
		return fmt.Errorf("a tenant may open /dev/fuse")
	}
	fmt.Fprintln(os.Stderr, err)
	return nil
}
