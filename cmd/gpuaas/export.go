package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// exports completes a command that copies a stream of the API, all of it, to stdout
// or into a file. of finds out which stream, and of which type.
func exports(a *app, cmd *cobra.Command, mime string, of func(ctx context.Context, c *client, args []string) (sender, error)) *cobra.Command {
	var file string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		open, err := of(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		return a.copies(cmd.Context(), c, file, mime, open)
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "write here, once it is all there; stdout when left out")
	return cmd
}

const typeCSV = "text/csv"

func (a *app) copies(ctx context.Context, c *client, file, mime string, open sender) error {
	if file == "" || file == "-" {
		_, err := c.export(ctx, mime, open, a.Out)
		return err
	}
	n, err := whole(file, func(to io.Writer) (int64, error) { return c.export(ctx, mime, open, to) })
	if err == nil {
		a.say("%s %s: %d bytes", symbolGood, file, n)
	}
	return err
}

// exportSilence is longer than the server takes to give a slow reader up.
const exportSilence = 90 * time.Second

// export copies the stream. One that broke has no end, and copying it fails.
func (c *client) export(ctx context.Context, mime string, open sender, to io.Writer) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := open(ctx)
	if known(err) {
		return 0, err
	}
	if err != nil {
		return 0, c.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), mime) {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, bodyLimit))
		return 0, c.problem(resp, body)
	}
	silent := time.AfterFunc(exportSilence, cancel)
	defer silent.Stop()
	n, err := io.Copy(to, heard{resp.Body, func() { silent.Reset(exportSilence) }})
	if err != nil {
		return n, &failure{
			Message: fmt.Sprintf("the export broke off after %d bytes: %v", n, err), Code: string(errs.Unavailable),
			Try: "the same command again, or for a shorter time", Correlation: c.correlation, Exit: exitFailure,
		}
	}
	return n, nil
}

// heard calls each time something was read.
type heard struct {
	io.Reader

	each func()
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.each()
	return n, err
}

// whole writes a file that is either there with all that belongs into it, or not.
func whole(path string, write func(io.Writer) (int64, error)) (int64, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return 0, fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // once it has its name, there is nothing to remove
	n, err := write(f)
	if err != nil {
		_ = f.Close()
		return n, err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return n, fmt.Errorf("writing %s: %w", path, err)
	}
	if err := f.Close(); err != nil {
		return n, fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return n, fmt.Errorf("writing %s: %w", path, err)
	}
	return n, nil
}
