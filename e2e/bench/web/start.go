// Package web measures the portal: its files, and its screens in Chromium over WebDriver.
package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/gpuaas/gpuaas/e2e/bench/install"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// browser is a Chromium of its own, with its address of WebDriver.
type browser struct {
	session string
	server  *install.Server
	stop    func()
}

// signedIn starts an installation and a browser in which the development user is signed in.
func signedIn(ctx context.Context, l *lab.Lab, name string) (*browser, error) {
	driver, err := exec.LookPath("chromedriver")
	if err != nil {
		return nil, fmt.Errorf("no browser: %w", err)
	}
	server, err := install.Start(ctx, l, name)
	if err != nil {
		return nil, err
	}
	b, err := start(ctx, driver, filepath.Join(l.Dir, name+"-browser"))
	if err != nil {
		server.Stop()
		return nil, err
	}
	end := b.stop
	b.server, b.stop = server, func() { end(); server.Stop() }
	if err := b.signIn(ctx); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

func start(ctx context.Context, driver, dir string) (*browser, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, driver, "--port="+port) //nolint:gosec // found in PATH
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("starting chromedriver: %w", err)
	}
	b := &browser{session: "http://127.0.0.1:" + port}
	b.stop = func() {
		_ = b.call(ctx, http.MethodDelete, "", nil, nil)
		cancel()
		_ = cmd.Wait() // it was ordered to end
	}
	if err := b.until(ctx, func() bool { return b.call(ctx, http.MethodGet, "/status", nil, nil) == nil }); err != nil {
		b.stop()
		return nil, err
	}
	var made struct {
		SessionID string `json:"sessionId"`
	}
	args := []string{"--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900", "--user-data-dir=" + filepath.Join(dir, "profile")}
	err = b.call(ctx, http.MethodPost, "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"browserName": "chrome", "goog:chromeOptions": map[string]any{"args": args},
	}}}, &made)
	if err != nil {
		b.stop()
		return nil, err
	}
	b.session += "/session/" + made.SessionID
	return b, nil
}

func freePort(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a port: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return "", fmt.Errorf("reading a port: %w", err)
	}
	return port, listener.Close()
}

func (b *browser) signIn(ctx context.Context) error {
	if err := b.open(ctx, "/portal/"); err != nil {
		return err
	}
	const button = `document.querySelector('button[value="dev@dev.localhost"]')`
	if err := b.waits(ctx, button+" !== null"); err != nil {
		return err
	}
	if err := b.script(ctx, button+".click()", nil); err != nil {
		return err
	}
	return b.waits(ctx, `document.querySelector('[data-stream="live"]') !== null`)
}
