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

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func newAuditExport(a *app) *cobra.Command {
	q := &auditAsked{}
	var file string
	cmd := &cobra.Command{
		Use: "export", Short: "The same as CSV, all of it; what breaks off ends with 1 and leaves no file", Args: cobra.NoArgs,
		Example: "  gpuaas audit export --from 2026-01-01 --to 2026-02-01 -f january.csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := q.read(cmd.Context(), a, c); err != nil {
				return err
			}
			if file == "" || file == "-" {
				_, err := c.export(cmd.Context(), q, a.Out)
				return err
			}
			n, err := whole(file, func(to io.Writer) (int64, error) { return c.export(cmd.Context(), q, to) })
			if err == nil {
				a.say("%s %s: %d bytes", symbolGood, file, n)
			}
			return err
		},
	}
	q.flags(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "write here, once it is all there; stdout when left out")
	return cmd
}

// exportSilence is longer than the server takes to give a slow reader up.
const exportSilence = 90 * time.Second

// export copies the stream. One that broke has no end, and copying it fails.
func (c *client) export(ctx context.Context, q *auditAsked, to io.Writer) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.openExport(ctx, q)
	if known(err) {
		return 0, err
	}
	if err != nil {
		return 0, c.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/csv") {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, bodyLimit))
		return 0, c.problem(resp, body)
	}
	silent := time.AfterFunc(exportSilence, cancel)
	defer silent.Stop()
	n, err := io.Copy(to, heard{resp.Body, func() { silent.Reset(exportSilence) }})
	if err != nil {
		return n, &failure{
			Message: fmt.Sprintf("the export broke off after %d bytes: %v", n, err), Code: string(errs.Unavailable),
			Try: "the same command again, or a shorter time with --from and --to", Correlation: c.correlation, Exit: exitFailure,
		}
	}
	return n, nil
}

func (c *client) openExport(ctx context.Context, q *auditAsked) (*http.Response, error) {
	if q.all {
		return c.ExportAdminAuditLogs(ctx, &oapi.ExportAdminAuditLogsParams{
			Actor: set(q.actor), Action: set(q.action), Target: set(q.target), From: q.from, To: q.to, Tenant: q.tenantID,
		})
	}
	return c.ExportAuditLogs(ctx, &oapi.ExportAuditLogsParams{
		Actor: set(q.actor), Action: set(q.action), Target: set(q.target), From: q.from, To: q.to,
	})
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
