package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/agent"
	files "github.com/gpuaas/gpuaas/deploy/agent"
	"github.com/gpuaas/gpuaas/internal/durable"
)

const (
	agentAccount = "gpuaas-agent"
	libDir       = "/usr/lib/gpuaas"
	binaryName   = "gpuaas-agent"
	binLink      = "/usr/bin/gpuaas-agent"
)

// units in the sequence of their start.
var units = []string{files.SSHDSocket, files.HelperUnit, files.NetworkUnit, files.GuardTimer}

// agentUser returns the user of the network process.
func agentUser() (uid, gid int, err error) {
	u, err := user.Lookup(agentAccount)
	if err != nil {
		return 0, 0, fmt.Errorf("the agent's user: %w", err)
	}
	uid, err = strconv.Atoi(u.Uid)
	if err != nil {
		return 0, 0, fmt.Errorf("the agent's user: %w", err)
	}
	gid, err = strconv.Atoi(u.Gid)
	return uid, gid, err
}

// install makes this computer a node. Each part first checks whether it is done, so a second run
// changes nothing.
func install(ctx context.Context, p process) error {
	s, err := read(p.name, p.args, p.errOut, p.env)
	if err != nil {
		return err
	}
	if s.Server == "" || s.CAFingerprint == "" && s.CAFile == "" {
		return &usageError{errors.New("-server, and -ca-fingerprint or -ca-file, are required: use the command that gpuaas node add prints")}
	}
	if err := preflight(ctx, p.out); err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

	for _, part := range []struct {
		name string
		do   func(context.Context) (changed bool, err error)
	}{
		{"configuration " + defaultFile, func(context.Context) (bool, error) { return s.save() }},
		{"program in " + libDir, func(context.Context) (bool, error) { return installBinary() }},
		{"units, user and directories", installFiles},
		{"way to sshd in " + sshdFile, installSSHD},
	} {
		changed, err := part.do(ctx)
		if err != nil {
			return fmt.Errorf("installing %s: %w", part.name, err)
		}
		say("%-9s %s", map[bool]string{true: "installed", false: "in place"}[changed], part.name)
	}

	// A restart disturbs no tenant: what tenants run lives in their own slices.
	if _, err := child(ctx, "/usr/bin/systemctl", "stop", files.NetworkUnit, files.HelperUnit); err != nil {
		return err
	}
	enrolled, err := enrolHost(ctx, s, p)
	if err != nil {
		return err
	}
	if enrolled.Fresh {
		say("enrolled  as node %s", enrolled.Node)
	} else {
		say("in place  enrolled as node %s", enrolled.Node)
	}
	if _, err := child(ctx, "/usr/bin/systemctl", append([]string{"enable", "--now"}, units...)...); err != nil {
		return err
	}
	say("started   %s", strings.Join(units, ", "))
	if err := awaitReport(ctx); err != nil {
		return err
	}
	say("\nThis node is %s. The server has accepted its first report. The agent renews its certificate before %s.", enrolled.Node, enrolled.Until.Format(time.RFC3339))
	say("See gpuaas-agent status on the node, and gpuaas describe node/%s.", s.Hostname)
	return nil
}

// preflight rejects a host OS that cannot isolate tenants.
func preflight(ctx context.Context, out io.Writer) error {
	var before []check
	for _, c := range checks(statusSocket) {
		if c.before {
			before = append(before, c)
		}
	}
	found, failed := examine(ctx, before)
	if failed == 0 {
		fmt.Fprintf(out, "checked   %d requirements\n", len(found))
		for _, f := range found {
			if f.Verdict == warn {
				fmt.Fprintf(out, "warning   %s: %s\n          → %s\n", f.Check, f.Why, f.Do)
			}
		}
		return nil
	}
	writeFindings(out, found)
	return fmt.Errorf("this node cannot be installed: %d of %d checks failed. Nothing was installed", failed, len(found))
}

// enrolHost spends the token, where there is need, and gives the identity to the
// half that speaks.
func enrolHost(ctx context.Context, s settings, p process) (agent.Enrolled, error) {
	log := slog.New(slog.NewTextHandler(p.errOut, &slog.HandlerOptions{Level: slog.LevelWarn}))
	c, err := s.config(log, p.env)
	if err != nil {
		return agent.Enrolled{}, err
	}
	c.Anchor = agent.AnchorIn(s.RunDir)
	if c.Token == nil {
		c.Token = func(context.Context) (string, error) { return tokenFrom(p.in) }
	}
	enrolled, err := agent.Enrol(ctx, c)
	if err != nil {
		return enrolled, fmt.Errorf("enrolling this node: %w", err)
	}
	uid, gid, err := agentUser()
	if err != nil {
		return enrolled, err
	}
	return enrolled, filepath.WalkDir(filepath.Join(s.StateDir, "identity"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid) //nolint:gosec // of a link itself, in a folder whose owner is stopped
	})
}

// tokenFrom reads a token that was piped in. A terminal is not waited for.
func tokenFrom(in io.Reader) (string, error) {
	if f, is := in.(*os.File); is {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return "", errors.New("no enrolment token: pipe it in, or name a file with -token-file")
		}
	}
	const longest = 4 << 10
	text, err := io.ReadAll(io.LimitReader(in, longest))
	if err != nil {
		return "", fmt.Errorf("reading enrolment token: %w", err)
	}
	if token := strings.TrimSpace(string(text)); token != "" {
		return token, nil
	}
	return "", errors.New("no enrolment token: pipe it in, or name a file with -token-file")
}

// installBinary copies this binary next to the running one and then renames it.
func installBinary() (changed bool, err error) {
	self, err := os.Executable()
	if err != nil {
		return false, fmt.Errorf("finding this program: %w", err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		return false, fmt.Errorf("reading this program: %w", err)
	}
	current := filepath.Join(libDir, "current")
	side := "a"
	if at, err := os.Readlink(current); err == nil {
		if running, err := os.ReadFile(filepath.Join(current, binaryName)); err == nil && sha256.Sum256(running) == sha256.Sum256(text) {
			return false, link(binLink, filepath.Join(current, binaryName))
		}
		if filepath.Base(at) == "a" {
			side = "b"
		}
	}
	dir := filepath.Join(libDir, side)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // both halves and tenants run what lies here
		return false, fmt.Errorf("making %s: %w", dir, err)
	}
	if err := durable.Write(filepath.Join(dir, binaryName), text, 0o755); err != nil {
		return false, err
	}
	return true, errors.Join(link(current, side), link(binLink, filepath.Join(current, binaryName)))
}

// link makes path lead to target, at one moment.
func link(path, target string) error {
	if at, err := os.Readlink(path); err == nil && at == target {
		return nil
	}
	temp := path + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("linking %s: %w", path, err)
	}
	if err := os.Symlink(target, temp); err != nil {
		return fmt.Errorf("linking %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("linking %s: %w", path, err)
	}
	return nil
}

// installFiles writes what systemd reads, and lets it.
func installFiles(ctx context.Context) (changed bool, err error) {
	for _, f := range files.Files() {
		text, err := f.Text()
		if err != nil {
			return false, err
		}
		if have, err := os.ReadFile(f.Path); err == nil && bytes.Equal(have, text) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil { //nolint:gosec // units are read by everybody
			return false, fmt.Errorf("making directory: %w", err)
		}
		if err := durable.Write(f.Path, text, 0o644); err != nil {
			return false, err
		}
		changed = true
	}
	for _, args := range [][]string{
		{"/usr/bin/systemd-sysusers", "/etc/sysusers.d/gpuaas-agent.conf"},
		{"/usr/bin/systemd-tmpfiles", "--create", "/etc/tmpfiles.d/gpuaas-agent.conf"},
		{"/usr/bin/systemctl", "daemon-reload"},
	} {
		if _, err := child(ctx, args[0], args[1:]...); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// sshdFile contains sshd's address for the unit that forwards the helper's probes.
const sshdFile = "/etc/gpuaas/sshd.env"

func installSSHD(ctx context.Context) (changed bool, err error) {
	out, err := child(ctx, "/usr/sbin/sshd", "-T")
	if err != nil {
		return false, err
	}
	port := "22"
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "port" {
			port = words[1]
			break
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false, fmt.Errorf("sshd listens on port %q", port)
	}
	text := []byte("GPUAAS_SSHD=127.0.0.1:" + port + "\n")
	if have, err := os.ReadFile(sshdFile); err == nil && bytes.Equal(have, text) {
		return false, nil
	}
	return true, durable.Write(sshdFile, text, 0o644)
}

// reportWithin is enough for the first check of eight devices and a renewal.
const reportWithin = 2 * time.Minute

// awaitReport waits for the control plane to accept a report.
func awaitReport(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	last := errors.New("no report was accepted")
	for {
		var st agent.Status
		if err := get(ctx, statusSocket, agent.PathStatus, &st); err != nil {
			last = err
		} else if !st.ReportedAt.IsZero() {
			return nil
		} else if st.ReportError != "" {
			last = errors.New(st.ReportError)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("the agent runs, but no report was accepted in %s: %w. See journalctl -u gpuaas-agent -u gpuaas-agent-helper", reportWithin, last)
		}
	}
}
