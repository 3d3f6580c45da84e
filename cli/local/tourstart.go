package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/cli/client"
)

// The first start creates a PostgreSQL cluster, which needs seconds on a slow disk.
const (
	startsWithin = time.Minute
	stopsWithin  = 20 * time.Second
)

// startOwn starts an installation in a temporary folder with its own profiles, so that the user's
// profiles stay unchanged. stop ends it and deletes the folder. After a failure the folder stays
// for diagnosis.
func (t *tour) startOwn(ctx context.Context) (stop func(failed error), err error) {
	dir, err := os.MkdirTemp("", "gpuaas-tour-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the tour: %w", err)
	}
	// As root, PostgreSQL runs as another user, which must be able to enter the folder.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, fmt.Errorf("opening the folder of the tour: %w", err)
	}
	config := filepath.Join(dir, "config")
	ready := filepath.Join(dir, "ready.json")
	logPath := filepath.Join(dir, "up.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making the log of the tour: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own

	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding own binary: %w", err)
	}
	args := []string{"up", "--headless", "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--ready-file", ready}
	t.print("Starting an installation for the tour:\n$ gpuaas %s\n", strings.Join(args, " "))
	// It outlives ctx a little: the tour tidies up through it.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	up := exec.CommandContext(running, self, args...) //nolint:gosec // our own binary
	up.Env = append(withoutOwn(os.Environ()), "GPUAAS_CONFIG_DIR="+config)
	up.Stdout, up.Stderr = log, log
	up.Cancel = func() error { return up.Process.Signal(os.Interrupt) }
	up.WaitDelay = stopsWithin
	if err := up.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("starting gpuaas up: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	stop = func(failed error) {
		cancel()
		<-ended //nolint:errcheck // how it ended is in its log
		if failed == nil || errors.Is(failed, context.Canceled) {
			_ = os.RemoveAll(dir)
			return
		}
		t.app.Notify("The data of the tour's installation is in %s. The end of its log:\n%s", dir, tail(logPath, 15))
	}
	if err := t.awaitReady(ctx, ready, ended); err != nil {
		stop(err)
		return nil, err
	}

	own := *t.app
	own.Profile, own.Url, own.Project = "", "", ""
	outer := t.app.Env
	own.Env = func(name string) string {
		switch name {
		case "GPUAAS_CONFIG_DIR":
			return config
		case "GPUAAS_URL", "GPUAAS_TOKEN", "GPUAAS_TOKEN_FILE", "GPUAAS_PROFILE", "GPUAAS_PROJECT":
			return ""
		}
		return outer(name)
	}
	t.app = &own
	return stop, nil
}

func (t *tour) awaitReady(ctx context.Context, ready string, ended chan error) error {
	within, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	for {
		text, err := os.ReadFile(ready)
		var said struct {
			URL string `json:"url"`
		}
		if err == nil && json.Unmarshal(text, &said) == nil && said.URL != "" {
			t.printChecked("it is ready at %s", said.URL)
			return nil
		}
		select {
		case err := <-ended:
			ended <- err // stop reads it again
			return fmt.Errorf("gpuaas up ended before it was ready: %w", errors.Join(err, errors.New("see its log")))
		default:
		}
		if err := client.Sleep(within, 50*time.Millisecond); err != nil {
			return fmt.Errorf("gpuaas up was not ready within %s", startsWithin)
		}
	}
}

// withoutOwn leaves out what would lead the tour's installation, or its
// profile, to another one.
func withoutOwn(env []string) []string {
	var kept []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "GPUAAS_") || name == "GPUAAS_PG_BIN" {
			kept = append(kept, e)
		}
	}
	return kept
}

func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
