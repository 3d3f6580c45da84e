package simssh

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/gliderlabs/ssh"

	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
)

const (
	shell = "/bin/sh"
	// unprivileged is the user of the shells of an installation that root runs.
	unprivileged = 65534
	// failed is the exit status of a command that did not start.
	failed = 127
	// lastOutput is the time for the output of a program that has ended.
	lastOutput = time.Second
)

// sftpServers are the paths of OpenSSH's SFTP server.
var sftpServers = []string{"/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server", "/usr/lib/ssh/sftp-server"}

// session runs a shell or a command.
func (s *Server) session(sess ssh.Session) {
	args := []string{"-i"} // no login shell: the profile of this computer may set a PATH without nvidia-smi
	if command := sess.RawCommand(); command != "" {
		args = []string{"-c", command}
	}
	s.note(sess, "opened")
	defer s.note(sess, "closed")
	s.run(sess, shell, args...)
}

func (s *Server) sftp(sess ssh.Session) {
	for _, path := range sftpServers {
		if _, err := os.Stat(path); err == nil {
			s.run(sess, path)
			return
		}
	}
	s.fail(sess, errors.New("this computer has no sftp-server: install OpenSSH's server, or use scp -O"))
}

func (s *Server) fail(sess ssh.Session, err error) {
	fmt.Fprintf(sess.Stderr(), "simulated node: %v\r\n", err)
	_ = sess.Exit(failed)
}

func (s *Server) run(sess ssh.Session, path string, args ...string) {
	home, err := s.home(sess.User())
	if err != nil {
		s.fail(sess, err)
		return
	}
	if notice := s.show(sess.Context(), sess.User(), home); notice != "" {
		fmt.Fprint(sess.Stderr(), strings.ReplaceAll(notice, "\n", "\r\n"))
	}
	cmd := exec.CommandContext(sess.Context(), path, args...) //nolint:gosec // what SSH is for
	cmd.Dir, cmd.Env = home, s.environment(sess, home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = lastOutput
	terminal, windows, isTerminal := sess.Pty()
	if isTerminal {
		cmd.Env = append(cmd.Env, "TERM="+name(terminal.Term))
		err = inTerminal(sess, cmd, terminal.Window, windows)
	} else {
		err = piped(sess, cmd)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		_ = sess.Exit(statusOf(exit))
		return
	} else if err != nil && sess.Context().Err() == nil && !errors.Is(err, exec.ErrWaitDelay) {
		s.fail(sess, err)
		return
	}
	_ = sess.Exit(0)
}

// statusOf returns the exit status as a shell reports it: 128 and the signal for a program that a signal has ended.
func statusOf(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// piped runs a command without a terminal.
func piped(sess ssh.Session, cmd *exec.Cmd) error {
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = sess, sess.Stderr()
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(input, sess)
		_ = input.Close()
	}()
	return cmd.Wait()
}

// inTerminal runs a command in a terminal of the size of the client's.
func inTerminal(sess ssh.Session, cmd *exec.Cmd, size ssh.Window, windows <-chan ssh.Window) error {
	cmd.SysProcAttr.Setctty = true
	file, err := pty.StartWithAttrs(cmd, sizeOf(size), cmd.SysProcAttr)
	if err != nil {
		return err
	}
	resizing, stop := make(chan struct{}), make(chan struct{})
	defer func() {
		close(stop)
		<-resizing // the number of a closed file may be that of another one
		_ = file.Close()
	}()
	go func() {
		defer close(resizing)
		for {
			select {
			case size, ok := <-windows:
				if !ok {
					return
				}
				_ = pty.Setsize(file, sizeOf(size))
			case <-stop:
				return
			}
		}
	}()
	go func() { _, _ = io.Copy(file, sess) }()
	output := make(chan struct{})
	go func() {
		_, _ = io.Copy(sess, file)
		close(output)
	}()
	err = cmd.Wait()
	select {
	case <-output:
	case <-time.After(lastOutput): // a program in the background uses the terminal
	}
	return err
}

func sizeOf(w ssh.Window) *pty.Winsize {
	const most = 4096
	return &pty.Winsize{Rows: uint16(min(max(w.Height, 1), most)), Cols: uint16(min(max(w.Width, 1), most))}
}

var plain = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// name returns the name of a type of terminal.
func name(term string) string {
	if !plain.MatchString(term) {
		return "dumb"
	}
	return term
}

// environment contains nothing of this process but the path, and of the client only the language.
func (s *Server) environment(sess ssh.Session, home string) []string {
	env := []string{
		"HOME=" + home, "PATH=" + filepath.Join(home, ".bin") + ":/usr/local/bin:/usr/bin:/bin", "SHELL=" + shell,
		"USER=" + sess.User(), "LOGNAME=" + sess.User(), "PS1=" + sess.User() + "$ ",
	}
	for _, pair := range sess.Environ() {
		if key, value, _ := strings.Cut(pair, "="); (key == "LANG" || strings.HasPrefix(key, "LC_")) && plain.MatchString(key) && plain.MatchString(value) {
			env = append(env, pair)
		}
	}
	return env
}

// makeFolder makes the folder with the homes. Another user cannot enter the state directory of root.
func (s *Server) makeFolder() (string, error) {
	folder := filepath.Join(s.StateDir, "homes")
	if os.Getuid() == 0 {
		made, err := os.MkdirTemp("", "gpuaas-simulated-")
		if err != nil {
			return "", fmt.Errorf("making the homes of a simulated node: %w", err)
		}
		return made, os.Chmod(made, 0o711)
	}
	return folder, os.MkdirAll(folder, 0o700)
}

// home makes the home of an account, with an nvidia-smi that lists its GPUs.
func (s *Server) home(account string) (string, error) {
	a, host := s.account(account)
	if a == nil || !plain.MatchString(account) {
		return "", errors.New("the login has ended")
	}
	home := filepath.Join(s.folder, account)
	tools := filepath.Join(home, ".bin")
	if err := os.MkdirAll(tools, 0o755); err != nil { //nolint:gosec // another user may run the shell
		return "", fmt.Errorf("making a home: %w", err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(home, unprivileged, unprivileged); err != nil {
			return "", fmt.Errorf("making a home: %w", err)
		}
	}
	text, err := script(host, account)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(tools, "nvidia-smi"), []byte(text), 0o755); err != nil { //nolint:gosec // a program
		return "", fmt.Errorf("making nvidia-smi: %w", err)
	}
	return home, nil
}

// script returns an nvidia-smi that lists the GPUs that the account can open.
func script(host *sim.Host, account string) (string, error) {
	text, err := host.SMI()
	if err != nil {
		return "", err
	}
	reading, err := nvidiasmi.Read(strings.NewReader(text))
	if err != nil {
		return "", err
	}
	var list, table strings.Builder
	index := 0
	for i, g := range reading.GPUs {
		if !slices.Contains(host.GPUs[i].Users, account) {
			continue
		}
		fmt.Fprintf(&list, "GPU %d: %s (UUID: %s)\n", index, g.Model, g.UUID)
		fmt.Fprintf(&table, "| %3d  %-28s %-18s %8d MiB |\n", index, g.Model, g.PCI, g.MemoryMiB)
		index++
	}
	return "#!/bin/sh\n# The GPUs of this allocation on a simulated node: no program can use them.\ncase \"$1\" in\n-L) cat <<'END'\n" + list.String() +
		"END\n;;\n*) cat <<'END'\nSimulated node " + host.Hostname + ", driver " + reading.Driver + "\n" + table.String() + "END\n;;\nesac\n", nil
}
