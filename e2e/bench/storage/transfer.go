// Package storage measures the files of projects: uploads, downloads and large folders.
package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/api"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// The files of B1 and B2.
const (
	fileSize = 64 << 20
	files    = 4
)

// folderVariable is the environment variable with the folder of the peer.
const folderVariable = "GPUAAS_BENCH_FILES"

// Transfers compares uploads and downloads of the whole API with a server of net/http that writes synced files and sends
// them.
func Transfers(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ours, err := api.Stall(ctx, l, "b1")
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); ours.Stop() }()
	peer, stop, err := startPeer(ctx, l)
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); stop() }()
	c := client{size: int64(l.Scaled(fileSize, 1<<20))}
	ourPath := func(i int) string {
		return fmt.Sprintf("http://%s/api/v1/storage/%%s?path=f%d", ours.Address(), i)
	}
	up := func(i int) string { return fmt.Sprintf(ourPath(i), "upload") }
	down := func(i int) string { return fmt.Sprintf(ourPath(i), "download") }
	peerPath := func(i int) string { return fmt.Sprintf("http://%s/f%d", peer, i) }
	var rows []lab.Row
	for _, m := range []struct {
		id, path   string
		side       func(func(int) string) lab.Side
		ours, peer func(int) string
		least      float64
	}{
		{"B1", "upload of a file, folder backend / PUT of net/http to a synced file", c.upload, up, peerPath, 0.7},
		{"B2", "download of a file, folder backend / file server of net/http", c.download, down, peerPath, 0.8},
	} {
		p, err := l.Alternate(ctx, lab.LeastPairs, func(context.Context) error { return nil }, m.side(m.ours), m.side(m.peer))
		if err != nil {
			return nil, err
		}
		r := lab.Throughput(p, files, m.id, m.path).AtLeast(m.least)
		r.Note = fmt.Sprintf("%d files of %d MiB a run, one after the other", files, c.size>>20)
		rows = append(rows, r)
	}
	return rows, nil
}

// client sends and receives files of one size.
type client struct{ size int64 }

func (c client) upload(address func(int) string) lab.Side {
	return func(ctx context.Context) (time.Duration, error) {
		for i := range files {
			if err := c.send(ctx, http.MethodPut, address(i), io.LimitReader(zeros{}, c.size), 0); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
}

func (c client) download(address func(int) string) lab.Side {
	return func(ctx context.Context) (time.Duration, error) {
		for i := range files {
			if err := c.send(ctx, http.MethodGet, address(i), nil, c.size); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
}

// send sends a request and reads its response, which must have at least so many bytes.
func (c client) send(ctx context.Context, method, address string, body io.Reader, least int64) error {
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return fmt.Errorf("calling the server: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+lab.Token(0))
	if body != nil {
		r.ContentLength = c.size
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("calling the server: %w", err)
	}
	defer w.Body.Close() //nolint:errcheck // it was read
	n, err := io.Copy(io.Discard, w.Body)
	if err != nil || w.StatusCode >= http.StatusMultipleChoices || n < least {
		return fmt.Errorf("%s %s: status %d, %d bytes: %w", method, address, w.StatusCode, n, err)
	}
	return nil
}

// zeros is a source of bytes that costs nothing.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// startPeer starts the server that the API is compared with, in a process of its own.
func startPeer(ctx context.Context, l *lab.Lab) (address string, stop func(), err error) {
	dir := filepath.Join(l.Dir, "b1-peer")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("making a folder: %w", err)
	}
	cmd, err := l.ChildCommand(ctx, "files", folderVariable+"="+dir)
	if err != nil {
		return "", nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return "", nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer func() { _ = out.Close() }() // the process writes nothing more
	cmd.Stdout = in
	err = cmd.Start()
	_ = in.Close() // the peer has its own handle
	if err != nil {
		return "", nil, fmt.Errorf("starting the peer: %w", err)
	}
	stop = func() { _ = cmd.Wait() } // it was ordered to end
	if err := json.NewDecoder(out).Decode(&address); err != nil {
		_ = cmd.Process.Kill()
		stop()
		return "", nil, fmt.Errorf("the peer did not start: %w", err)
	}
	return address, stop, nil
}

// PeerProcess serves a folder until ctx ends. A PUT is durable when it is answered.
func PeerProcess(ctx context.Context) error {
	dir := os.Getenv(folderVariable)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	get := http.FileServer(http.Dir(dir))
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			get.ServeHTTP(w, r)
			return
		}
		if err := store(filepath.Join(dir, filepath.Base(r.URL.Path)), r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})}
	defer server.Close() //nolint:errcheck // the process ends
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if err := json.NewEncoder(os.Stdout).Encode(listener.Addr().String()); err != nil {
		return fmt.Errorf("saying that it serves: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// store writes a file as a careful program does: to a temporary name, synced, renamed, with a synced folder.
func store(path string, from io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new")
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was synced
	if _, err := io.Copy(f, from); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil { //nolint:gosec // the name has no folder
		return err
	}
	folder, err := os.Open(filepath.Dir(path)) //nolint:gosec // the folder of this process
	if err != nil {
		return err
	}
	defer folder.Close() //nolint:errcheck // it was read
	return folder.Sync()
}
