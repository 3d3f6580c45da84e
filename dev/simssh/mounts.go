package simssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/linux/mount"
	"github.com/gpuaas/gpuaas/protocol"
)

// mounts are the stored objects that this computer shows in the homes of shells. A computer without rclone or FUSE shows
// empty folders, and each login prints a line about it.
type mounts struct {
	mu       sync.Mutex
	support  mount.Support
	programs map[string][]*program // by account
	closed   bool
}

// program is one rclone.
type program struct {
	cmd          *exec.Cmd
	point, cache string // below the home
	output       *hostos.Capped
	ended        chan struct{}
}

const (
	// mountWithin is the time until a mount exists.
	mountWithin = 10 * time.Second
	// cacheMiB limits the cache of one mount: homes of simulated nodes have no quota.
	cacheMiB = 1024
	// uploadWithin is the time for the upload of the last files of an allocation.
	uploadWithin = 3 * time.Second
	mountEvery   = 50 * time.Millisecond
)

// show mounts the stored objects of an account, once. notice is for the login.
func (s *Server) show(ctx context.Context, account, home string) (notice string) {
	m, found, err := sim.ReadMounts(s.StateDir, account)
	if err != nil || !found {
		return ""
	}
	s.mounts.mu.Lock()
	defer s.mounts.mu.Unlock()
	if a, _ := s.account(account); a == nil || s.mounts.closed || s.mounts.programs[account] != nil {
		return ""
	}
	var at []string
	for _, one := range m.Storage.Mounts {
		at = append(at, one.At)
		if err := s.makePoint(home, one.At); err != nil {
			return fmt.Sprintf("Stored objects are not mounted: %v.\n", err)
		}
	}
	support := s.mounts.support.Of(ctx, &hostos.OS{})
	if !support.Supported && (os.Getuid() != 0 || !strings.HasPrefix(support.Missing, "/dev/fuse ") || !exists("/dev/fuse")) {
		return fmt.Sprintf("This computer shows no stored objects, so %s is empty: it has no %s.\n", strings.Join(at, ", "), support.Missing)
	}
	if s.mounts.programs == nil {
		s.mounts.programs = map[string][]*program{}
	}
	for n, one := range m.Storage.Mounts {
		p, err := s.start(account, home, n, m, one, support.Supported) //nolint:contextcheck // a mount outlives the session
		if err != nil {
			notice += fmt.Sprintf("%s is not mounted: %v.\n", one.At, err)
			continue
		}
		s.mounts.programs[account] = append(s.mounts.programs[account], p)
	}
	return notice
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// makePoint makes a folder in a home, and follows no link out of it.
func (s *Server) makePoint(home, at string) error {
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if below(filepath.Join(home, at)) {
		return nil
	}
	const onlyOwner = 0o700
	path := ""
	for name := range strings.SplitSeq(at, "/") {
		path = filepath.Join(path, name)
		if err := root.Mkdir(path, onlyOwner); errors.Is(err, os.ErrExist) {
			continue
		} else if err != nil {
			return err
		}
		if os.Getuid() == 0 {
			if err := root.Lchown(path, unprivileged, unprivileged); err != nil {
				return err
			}
		}
	}
	return nil
}

// start starts one rclone and waits until its mount exists. It runs as the user of the shells. Where only root may open
// /dev/fuse, root runs it for that user.
func (s *Server) start(account, home string, n int, m sim.Mounts, one protocol.Mount, everybody bool) (*program, error) {
	var key protocol.MountKey
	for _, k := range m.Keys {
		if k.At == one.At {
			key = k
		}
	}
	folder := filepath.Join(s.folder, "."+account+"-"+strconv.Itoa(n))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	config := filepath.Join(folder, "rclone.conf")
	if err := os.WriteFile(config, []byte(mount.Config(m.Storage.Endpoint, key)), 0o600); err != nil {
		return nil, err
	}
	p := &program{point: filepath.Join(home, one.At), cache: "cache", output: &hostos.Capped{}, ended: make(chan struct{})}
	args := append([]string{"mount", "--config=" + config, "--cache-dir=" + filepath.Join(folder, p.cache)}, mount.Args(m.Storage.Bucket, one, cacheMiB)...)
	args = append(args, p.point)
	p.cache = folder
	attributes := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	switch {
	case os.Getuid() != 0:
	case everybody:
		attributes.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
		for _, path := range []string{folder, config} {
			if err := os.Chown(path, unprivileged, unprivileged); err != nil {
				return nil, err
			}
		}
	default:
		args = append(args, "--allow-other", "--uid="+strconv.Itoa(unprivileged), "--gid="+strconv.Itoa(unprivileged))
	}
	p.cmd = exec.Command(string(hostos.Rclone), args...) //nolint:gosec,noctx // ends with the allocation
	p.cmd.Env = []string{"HOME=" + folder, "PATH=/usr/bin:/bin", "LC_ALL=C"}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = "/", p.output, p.output, attributes
	if err := p.run(); err != nil {
		return nil, err
	}
	for end := s.Clock.Now().Add(mountWithin); s.Clock.Now().Before(end); time.Sleep(mountEvery) {
		if below(p.point) {
			return p, nil
		}
		select {
		case <-p.ended:
			return nil, errors.New(hostos.FirstLine(p.output.String()))
		default:
		}
	}
	p.stop()
	return nil, fmt.Errorf("rclone has not mounted it within %s", mountWithin)
}

func (p *program) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent-death signal belongs to the thread
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
		close(p.ended)
	}()
	return <-started
}

// stop ends a mount, after the upload of what is written.
func (p *program) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), uploadWithin) //nolint:forbidigo // the upload outlives the server
	defer cancel()
	for ctx.Err() == nil {
		if n, err := mount.NotStored(ctx, p.cache, "cache"); err != nil || n == 0 {
			break
		}
		time.Sleep(mountEvery)
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(uploadWithin):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
	_ = syscall.Unmount(p.point, syscall.MNT_DETACH) // only root may; rclone has unmounted
	if below(p.point) {
		_ = exec.Command(string(hostos.Fusermount), "-u", "-z", "-q", p.point).Run() //nolint:noctx,gosec // ends at once
	}
	_ = os.RemoveAll(p.cache)
}

// erase ends the mounts of an account, then removes its home. A home with a mount stays: its removal would remove the
// stored objects. The lock prevents that a session mounts meanwhile.
func (s *Server) erase(account string) {
	s.mounts.mu.Lock()
	defer s.mounts.mu.Unlock()
	for _, p := range s.mounts.programs[account] {
		p.stop()
	}
	delete(s.mounts.programs, account)
	if home := filepath.Join(s.folder, account); !below(home) {
		_ = os.RemoveAll(home)
	}
}

// eraseAll ends all mounts and removes all homes.
func (s *Server) eraseAll() {
	s.mounts.mu.Lock()
	defer s.mounts.mu.Unlock()
	s.mounts.closed = true
	for _, programs := range s.mounts.programs {
		for _, p := range programs {
			p.stop()
		}
	}
	if !below(s.folder) {
		_ = os.RemoveAll(s.folder)
	}
}

// below reports whether something is mounted on a folder, or below it. A table that cannot be read counts as that.
func below(folder string) bool {
	if parent, err := filepath.EvalSymlinks(filepath.Dir(folder)); err == nil {
		folder = filepath.Join(parent, filepath.Base(folder))
	}
	table, err := (&hostos.OS{}).Mounts()
	if err != nil {
		return true
	}
	for at := range table {
		if at == folder || strings.HasPrefix(at, folder+"/") {
			return true
		}
	}
	return false
}
