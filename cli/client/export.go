package client

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

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// ExportCommand completes a command that copies a stream of the API, all of it, to stdout
// or into a file. of finds out which stream, and of which type.
func ExportCommand(a *output.Console, cmd *cobra.Command, mime string, of func(ctx context.Context, c *Client, args []string) (Sender, error)) *cobra.Command {
	var file string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := Connect(a)
		if err != nil {
			return err
		}
		open, err := of(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		return SaveExport(cmd.Context(), a, c, file, mime, open)
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file to write after the export is complete (default: stdout)")
	return cmd
}

const TypeCSV = "text/csv"

func SaveExport(ctx context.Context, a *output.Console, c *Client, file, mime string, open Sender) error {
	if file == "" || file == "-" {
		_, err := c.export(ctx, mime, open, a.Out)
		return err
	}
	n, err := WriteWhole(file, func(to io.Writer) (int64, error) { return c.export(ctx, mime, open, to) })
	if err == nil {
		a.Notify("%s %s: %d bytes", output.SymbolGood, file, n)
	}
	return err
}

// CopyExport copies a stream of the API.
func (c *Client) CopyExport(ctx context.Context, mime string, open Sender, to io.Writer) error {
	_, err := c.export(ctx, mime, open, to)
	return err
}

// exportSilence exceeds the time after which the server abandons a slow client.
const exportSilence = 90 * time.Second

// export copies the stream. One that broke has no end, and copying it fails.
func (c *Client) export(ctx context.Context, mime string, open Sender, to io.Writer) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := open(ctx)
	if hasCode(err) {
		return 0, err
	}
	if err != nil {
		return 0, c.Unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), mime) {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, BodyLimit))
		return 0, c.Problem(resp, body)
	}
	silent := time.AfterFunc(exportSilence, cancel)
	defer silent.Stop()
	n, err := io.Copy(to, deadlineReader{resp.Body, func() { silent.Reset(exportSilence) }})
	if err != nil {
		return n, &output.CommandError{
			Message: fmt.Sprintf("the export broke off after %d bytes: %v", n, err), Code: string(errs.Unavailable),
			Try: "the same command again, or for a shorter time", Correlation: c.Correlation, Exit: output.ExitFailure,
		}
	}
	return n, nil
}

// deadlineReader calls each time something was read.
type deadlineReader struct {
	io.Reader

	onRead func()
}

func (h deadlineReader) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.onRead()
	return n, err
}

// WriteWhole writes a file that is either there with all that belongs into it, or not.
func WriteWhole(path string, write func(io.Writer) (int64, error)) (int64, error) {
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
