package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// transfer copies files, several at the same time.
type transfer struct {
	a        *output.Console
	c        *client.Client
	direct   *http.Client
	parallel int
	parts    chan struct{} // one for each part that is being sent, of all files
	dry      bool
	large    int64
	progress *progress

	mu     sync.Mutex
	failed []error
	done   int
}

func newTransfer(a *output.Console, c *client.Client, parallel int, dry bool) (*transfer, error) {
	if parallel < 1 || parallel > 64 {
		return nil, output.UsageError("--parallel is %d; from 1 to 64 are possible", parallel)
	}
	direct, err := directClient(c)
	return &transfer{a: a, c: c, direct: direct, parallel: parallel, parts: make(chan struct{}, parallel), dry: dry, large: largeFile}, err
}

func (t *transfer) counted(r io.Reader) io.Reader { return t.progress.counted(r) }

// step is the copy or the removal of one file.
type step struct {
	what string // for --dry-run and errors
	size int64
	do   func(ctx context.Context) error
}

// run does all steps. The failure of one does not end the others.
func (t *transfer) run(ctx context.Context, steps []step) error {
	if t.dry {
		for _, s := range steps {
			t.a.Notify("would %s", output.CellText(s.what))
		}
		return nil
	}
	t.progress = startProgress(t.a)
	all, within := errgroup.WithContext(ctx)
	all.SetLimit(t.parallel)
	for _, s := range steps {
		t.progress.total.Add(s.size)
	}
	for _, s := range steps {
		if within.Err() != nil {
			break
		}
		all.Go(func() error {
			t.record(s, s.do(within))
			return within.Err()
		})
	}
	_ = all.Wait() // the context has its error, and each failure is recorded
	t.progress.end()
	return t.result(ctx, len(steps))
}

func (t *transfer) record(s step, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.done++
		return
	}
	t.failed = append(t.failed, fmt.Errorf("%s: %w", s.what, err))
}

// result prints the failures, and returns the first of them for the exit code.
func (t *transfer) result(ctx context.Context, steps int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(t.failed) == 0 {
		t.a.Notify("%s %s of %s", output.SymbolGood, output.CountOf(t.done, "file"), bytesText(t.progress.total.Load()))
		return nil
	}
	for _, err := range t.failed[1:] {
		t.a.Notify("%s %s", output.SymbolBad, output.OneLine(err.Error()))
	}
	err := t.failed[0]
	if known, ok := errors.AsType[*output.CommandError](err); ok {
		f := *known
		f.Message = fmt.Sprintf("%d of %d failed, the first: %s", len(t.failed), steps, err)
		return &f
	}
	return fmt.Errorf("%d of %d failed, the first: %w", len(t.failed), steps, err)
}

// localTree returns the files below a folder by their relative path. Links, devices and sockets are left out, with a line
// for each.
func (t *transfer) localTree(root string) (map[string]fs.FileInfo, error) {
	files := map[string]fs.FileInfo{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasSuffix(d.Name(), ".part") && strings.HasPrefix(d.Name(), ".") {
			return nil // of an interrupted download
		}
		switch {
		case d.IsDir():
		case !d.Type().IsRegular():
			t.a.Notify("skipped %s: %s", output.CellText(name), kindOf(d.Type()))
		default:
			info, err := d.Info()
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			files[filepath.ToSlash(rel)] = info
		}
		return nil
	})
	return files, err
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "not a file"
}

// remoteTree returns the files below a folder by their relative path.
func (t *transfer) remoteTree(ctx context.Context, p place) (map[string]oapi.StorageObject, error) {
	files := map[string]oapi.StorageObject{}
	all, err := client.ReadAll[oapi.StorageObject](ctx, t.c, 0, pager(t.c, p, true))
	if err != nil {
		return nil, err
	}
	for _, o := range all.Items {
		if o.Type == oapi.File {
			files[strings.TrimPrefix(strings.TrimPrefix(o.Path, p.path), "/")] = o
		}
	}
	return files, nil
}

func (t *transfer) sendStep(from string, size int64, to place) step {
	return step{"upload " + from + " to " + to.String(), size, func(ctx context.Context) error { return t.send(ctx, from, to) }}
}

func (t *transfer) receiveStep(p place, o oapi.StorageObject, into *os.Root, to string) step {
	p.path = o.Path
	return step{"download " + p.String() + " to " + filepath.Join(into.Name(), to), o.SizeBytes, func(ctx context.Context) error { return t.receive(ctx, p, o, into, to) }}
}
