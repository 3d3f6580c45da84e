//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/e2e/check"
	"github.com/gpuaas/gpuaas/internal/profile"
)

// installation is one server and its data in its own folder, which a test can kill and start again.
type installation struct {
	t    testing.TB
	dir  string
	repo string // the checkout that up runs in
	args []string
	temp string // TMPDIR of its processes; empty: the test's
	// empty: the first start creates the database. Otherwise it has a copy of a migrated one.
	empty bool

	terminals string // address of the websockets, if it is not that of the API

	up     *exec.Cmd
	ended  chan struct{} // closed when up has ended
	starts int
	// The time of the last start of up, and of the start before it.
	since, before time.Time
	names         int
	armed         int // failpoints so far
}

// newInstallation prepares an installation without starting it. It is removed with the test, however the
// test ends.
func newInstallation(t testing.TB, args ...string) *installation {
	t.Helper()
	dir, err := os.MkdirTemp("", "gpuaas-e2e-")
	must(t, err)
	must(t, os.Chmod(dir, 0o711))
	h := &installation{t: t, dir: dir, repo: checkout(t, filepath.Join(dir, "repo")), args: args, ended: make(chan struct{})}
	close(h.ended)
	t.Cleanup(func() {
		h.kill()
		if left := h.endsWithin(10 * time.Second); len(left) > 0 {
			t.Errorf("processes that outlived the installation: %v", left)
			for _, p := range left {
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
		}
		if t.Failed() {
			t.Logf("the end of the log:\n%s", tail(h.log(), 15))
		}
		must(t, os.RemoveAll(dir))
	})
	return h
}

// checkout creates a repository that contains the development fleet.
func checkout(t testing.TB, dir string) string {
	t.Helper()
	must(t, os.CopyFS(filepath.Join(dir, "environments", "dev"), os.DirFS(filepath.Join("..", "environments", "dev"))))
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	commit(t, dir, "fleet")
	return dir
}

func commit(t testing.TB, dir, message string) {
	t.Helper()
	git(t, dir, "add", "--all")
	git(t, dir, "commit", "--quiet", "--message", message)
}

func git(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=e2e", "-c", "user.email=e2e@localhost", "-c", "commit.gpgsign=false"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func edit(t testing.TB, path, from, to string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Contains(text, []byte(from)) {
		t.Fatalf("%s does not contain %q", path, from)
	}
	must(t, os.WriteFile(path, bytes.Replace(text, []byte(from), []byte(to), 1), 0o644))
}

func (h *installation) path(name string) string { return filepath.Join(h.dir, name) }
func (h *installation) data() string            { return h.path("data") }
func (h *installation) agents() string          { return filepath.Join(h.data(), "agents") }
func (h *installation) log() string             { return h.path("up.log") }

// own returns the environment without the variables that select another installation.
func (h *installation) own(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GPUAAS_") && !strings.HasPrefix(e, "GPUAAS_PG_BIN=") })
	if h.temp != "" {
		env = append(env, "TMPDIR="+h.temp)
	}
	return append(append(env, "GPUAAS_CONFIG_DIR="+h.path("config"), "NO_COLOR=1"), more...)
}

// begin starts up and does not wait.
func (h *installation) begin(env ...string) {
	h.t.Helper()
	h.starts++
	h.before, h.since = h.since, time.Now()
	_ = os.Remove(h.path("ready"))
	out, err := os.OpenFile(h.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(h.t, err)
	defer out.Close()
	args := append([]string{
		"up", "--headless", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--issuer-listen", "127.0.0.1:0", "--payments-listen", "127.0.0.1:0", "--mail-listen", "127.0.0.1:0",
		"--data-dir", h.data(), "--ready-file", h.path("ready"),
	}, h.args...)
	h.up = exec.Command(filepath.Join(bins, "gpuaas"), args...)
	h.prepare()
	h.up.Dir, h.up.Env, h.up.Stdout, h.up.Stderr = h.repo, h.own(append(env, "GPUAAS_FAILPOINT_FILE="+h.path("failpoint"))...), out, out
	h.ended = launch(h.t, h.up)
}

// launch starts a process in its own process group. The process dies with this one, also when a
// test exceeds its time limit.
func launch(t testing.TB, cmd *exec.Cmd) (ended chan struct{}) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	ended = make(chan struct{})
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent-death signal belongs to the thread
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(ended)
		}
	}()
	must(t, <-started)
	return ended
}

// start starts up and waits until it is ready. Otherwise the test fails.
func (h *installation) start(env ...string) {
	h.t.Helper()
	h.begin(env...)
	if !h.answers() {
		h.t.Fatalf("up did not start:\n%s", tail(h.log(), 20))
	}
}

// answers waits for the ready file or for the end of up.
func (h *installation) answers() bool {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if _, err := os.Stat(h.path("ready")); err == nil {
			return true
		}
		if h.over() {
			return false
		}
		time.Sleep(pollEvery)
	}
	return false
}

// pollEvery is the time between two checks for an effect of a process. A check that starts a program pauses longer, because
// the program needs more CPU time than what it reads.
const (
	pollEvery    = 10 * time.Millisecond
	commandPause = 200 * time.Millisecond
)

func (h *installation) over() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// revive starts up again if it has ended.
func (h *installation) revive() {
	h.t.Helper()
	if h.over() {
		h.start()
	}
}

// kill kills up and its agents at once, as a power failure would.
func (h *installation) kill() {
	if h.up != nil && !h.over() {
		_ = syscall.Kill(-h.up.Process.Pid, syscall.SIGKILL)
		<-h.ended
	}
}

// stop ends up as Ctrl-C does.
func (h *installation) stop() {
	h.t.Helper()
	if h.over() {
		return
	}
	must(h.t, h.up.Process.Signal(syscall.SIGINT))
	select {
	case <-h.ended:
	case <-time.After(30 * time.Second):
		h.t.Errorf("up did not stop in 30 s:\n%s", tail(h.log(), 20))
		h.kill()
	}
}

type process struct {
	pid  int
	what string
}

// processes returns all processes of this installation.
func (h *installation) processes() (list []process) {
	entries, err := os.ReadDir("/proc")
	must(h.t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		cwd, _ := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		what := string(bytes.TrimSpace(bytes.ReplaceAll(cmdline, []byte{0}, []byte(" "))))
		if strings.Contains(what, h.dir) || strings.HasPrefix(cwd, h.dir) {
			list = append(list, process{pid, what})
		}
	}
	return list
}

func (h *installation) endsWithin(d time.Duration) (left []process) {
	for end := time.Now().Add(d); ; time.Sleep(pollEvery) {
		if left = h.processes(); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// postmaster returns the parent process of all processes of PostgreSQL.
func (h *installation) postmaster() (pid int, socket string) {
	text, err := os.ReadFile(filepath.Join(h.data(), "postgres", "data", "postmaster.pid"))
	if err != nil {
		return 0, ""
	}
	lines := strings.Split(string(text), "\n")
	pid, _ = strconv.Atoi(lines[0])
	return pid, filepath.Join(h.data(), "postgres", "run")
}

// sql opens a separate connection for checks.
func (h *installation) sql(ctx context.Context) (*pgx.Conn, error) {
	_, socket := h.postmaster()
	u := url.URL{Scheme: "postgres", User: url.User("gpuaas"), Path: "/postgres", RawQuery: url.Values{"host": {socket}}.Encode()}
	return pgx.Connect(ctx, u.String())
}

// findings checks the current state of the installation.
func (h *installation) findings(e check.Expect) (found []check.Finding, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	db, err := h.sql(ctx)
	if err != nil {
		return nil, err
	}
	defer db.Close(ctx)
	if found, err = check.Database(ctx, db, e); err != nil {
		return nil, err
	}
	var logins []string
	if err := db.QueryRow(ctx, `SELECT coalesce(array_agg(login), '{}') FROM allocations WHERE name = ANY($1)`, e.Live).Scan(&logins); err != nil {
		return nil, err
	}
	onNodes, err := check.Nodes(h.agents(), logins)
	return append(found, onNodes...), err
}

// converges waits until there are no findings. Findings at the end of the time limit fail the test;
// a check that cannot read its data fails it at once.
func (h *installation) converges(t testing.TB, within time.Duration, e check.Expect) bool {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	found, err := check.Await(ctx, 20*pollEvery, func() ([]check.Finding, error) {
		h.revive()
		return h.findings(e)
	})
	if d := time.Since(began); err == nil && len(found) == 0 && d > 5*time.Second {
		t.Logf("converged after %s", d.Round(100*time.Millisecond))
	}
	if err != nil {
		t.Errorf("not checked: %v", err)
	}
	for _, f := range found {
		t.Error(f)
	}
	return err == nil && len(found) == 0
}

func (h *installation) profile(name string) (profile.Profile, error) {
	f, err := (profile.Store{Path: filepath.Join(h.path("config"), "config.yaml")}).Read()
	if err != nil {
		return profile.Profile{}, err
	}
	p, ok := f.Profiles[name]
	if !ok {
		return p, fmt.Errorf("no profile %q yet", name)
	}
	return p, nil
}

// commandResult contains the output and the exit status of a command.
type commandResult struct {
	out, err string
	code     int
}

func (h *installation) cli(args ...string) commandResult {
	h.t.Helper()
	cmd := exec.Command(filepath.Join(bins, "gpuaas"), args...)
	cmd.Dir, cmd.Env = h.repo, h.own()
	return finish(h.t, cmd)
}

func finish(t testing.TB, cmd *exec.Cmd) commandResult {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	ended := launch(t, cmd)
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		t.Errorf("%v did not end", cmd.Args)
	}
	return commandResult{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

func until(t testing.TB, within time.Duration, what string, ok func() error) bool {
	t.Helper()
	err := errors.New("not checked")
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(2 * pollEvery) {
		if err = ok(); err == nil {
			return true
		}
	}
	t.Errorf("%s: not within %s: %v", what, within, err)
	return false
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func decode(text string, v any) error { return json.Unmarshal([]byte(text), v) }
