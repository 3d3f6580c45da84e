package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// process is a running child with the channel that is closed at its end.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // set before ended is closed
}

// spawn starts the command so that it cannot outlive us.
func spawn(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel sends the parent-death signal at the end of the thread that forked, not of the
		// process. This goroutine owns its thread until the end.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", filepath.Base(cmd.Path), err)
	}
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may just have ended

// endsWithin waits for the end and reports whether it happened in time.
func (p *process) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// command prepares a server binary to run as o. The folders are handed over as
// open descriptors and named by the returned paths: when root's checkout lies
// below /root, the unprivileged user could not walk there by name.
func (o owner) command(ctx context.Context, path string, folders ...string) (*exec.Cmd, []string, func(), error) {
	cmd := exec.CommandContext(ctx, path)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	// A group of its own: Ctrl-C is ours to answer, after the drain.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if !o.drop {
		return cmd, folders, func() {}, nil
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)} //nolint:gosec // ids of the system
	if !descriptorPaths {
		return cmd, folders, func() {}, nil
	}
	var names []string
	closeAll := func() {
		for _, f := range cmd.ExtraFiles {
			_ = f.Close()
		}
	}
	for _, folder := range folders {
		f, err := os.Open(folder)
		if err != nil {
			closeAll()
			return nil, nil, nil, fmt.Errorf("opening a folder for PostgreSQL: %w", err)
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
		names = append(names, fmt.Sprintf("/proc/self/fd/%d", 2+len(cmd.ExtraFiles)))
	}
	return cmd, names, closeAll, nil
}

// run is spawn for a command that ends by itself.
func run(ctx context.Context, cmd *exec.Cmd) error {
	p, err := spawn(cmd)
	if err != nil {
		return err
	}
	<-p.ended
	return errors.Join(ctx.Err(), p.err)
}
