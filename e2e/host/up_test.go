//go:build e2e

package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/profile"
)

// server is an installation whose fleet is what is brought to it.
type server struct {
	t     testing.TB
	dir   string
	cmd   *exec.Cmd
	ended chan struct{}
	// storage is the address of the S3 endpoint.
	storage string
	ready   struct {
		NodeURL string `json:"internal_url"`
	}
}

// startServer starts one without a fleet, whose node API listens on address.
func startServer(t testing.TB, address string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "gpuaas-host-up-")
	must(t, err)
	must(t, os.Chmod(dir, 0o711))
	s := &server{t: t, dir: dir, ended: make(chan struct{})}
	fleet := filepath.Join(dir, "repo", "environments", "dev")
	must(t, os.CopyFS(fleet, os.DirFS(filepath.Join("..", "..", "environments", "dev"))))
	must(t, os.WriteFile(filepath.Join(fleet, "nodes.cue"), []byte("package dev\n\nnodes: []\n"), 0o600))
	for _, args := range [][]string{{"init", "--quiet", "--initial-branch=main"}, {"add", "--all"}, {"commit", "--quiet", "--message", "fleet"}} {
		git := exec.CommandContext(t.Context(), "git", append([]string{"-C", filepath.Join(dir, "repo"), "-c", "user.name=e2e", "-c", "user.email=e2e@localhost", "-c", "commit.gpgsign=false"}, args...)...)
		if out, err := git.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", git.Args, err, out)
		}
	}
	s.start(address)
	t.Cleanup(s.stop)
	return s
}

func (s *server) start(address string) {
	s.t.Helper()
	log, err := os.Create(s.path("up.log"))
	must(s.t, err)
	defer log.Close()
	if s.storage == "" { // the nodes have its port in their packet rules, so it stays
		free, err := net.Listen("tcp", address+":0")
		must(s.t, err)
		s.storage = free.Addr().String()
		must(s.t, free.Close())
	}
	s.cmd = exec.Command(binary(s.t, "gpuaas"), "up", "--headless", "--listen", "127.0.0.1:0", "--node-listen", address+":0", "--storage-listen", s.storage, "--metrics-listen", "127.0.0.1:0",
		"--issuer-listen", "127.0.0.1:0", "--payments-listen", "127.0.0.1:0", "--mail-listen", "127.0.0.1:0", "--data-dir", s.path("data"), "--ready-file", s.path("ready"))
	s.cmd.Dir, s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = s.path("repo"), s.env(), log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the parent-death signal belongs to the thread
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
			close(s.ended)
		}
	}()
	must(s.t, <-started)
	within(s.t, 2*time.Minute, "up answers", func() error {
		select {
		case <-s.ended:
			s.t.Fatalf("up ended:\n%s", s.log())
		default:
		}
		text, err := os.ReadFile(s.path("ready"))
		if err != nil {
			return err
		}
		return json.Unmarshal(text, &s.ready)
	})
}

func (s *server) stop() {
	if s.t.Failed() {
		s.t.Logf("the end of the server's log:\n%s", s.log())
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT)
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.ended
	}
	_ = os.RemoveAll(s.dir)
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

func (s *server) env() []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GPUAAS_") && !strings.HasPrefix(e, "GPUAAS_PG_BIN=") })
	return append(env, "GPUAAS_CONFIG_DIR="+s.path("config"), "NO_COLOR=1")
}

func (s *server) log() string {
	text, _ := os.ReadFile(s.path("up.log"))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// cli runs the command line, as one of the development people.
func (s *server) cli(who string, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), binary(s.t, "gpuaas"), append([]string{"--profile", who}, args...)...)
	cmd.Dir, cmd.Env = s.path("repo"), s.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

var client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// call is one request of the API.
func (s *server) call(who, method, path string, body, into any) error {
	f, err := (profile.Store{Path: s.path("config/config.yaml")}).Read()
	if err != nil {
		return err
	}
	p := f.Profiles[who]
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, p.URL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+p.Token)
	if p.Project != "" {
		r.Header.Set("X-Project-ID", p.Project)
	}
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Idempotency-Key", fmt.Sprintf("%s-%d", strings.Trim(strings.ReplaceAll(path, "/", "-"), "-"), time.Now().UnixNano()))
	}
	reply, err := client.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	answer, err := io.ReadAll(reply.Body)
	if err != nil {
		return err
	}
	if reply.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %d %s", method, path, reply.StatusCode, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

func within(t testing.TB, d time.Duration, what string, ok func() error) {
	t.Helper()
	err := errors.New("not checked")
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = ok(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within %s: %v", what, d, err)
}
