package storage

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaas/cli/output"
)

// progress prints a line on a terminal while files are transferred.
type progress struct {
	a           *output.Console
	total, done atomic.Int64
	stop        chan struct{}
	ended       sync.WaitGroup
}

const drawEvery = 500 * time.Millisecond

// startProgress draws only where a user can read it.
func startProgress(a *output.Console) *progress {
	p := &progress{a: a, stop: make(chan struct{})}
	if !a.Terminal || a.Data() || a.Env("CI") != "" {
		return p
	}
	p.ended.Go(func() {
		every := time.NewTicker(drawEvery)
		defer every.Stop()
		for {
			select {
			case <-p.stop:
				_, _ = fmt.Fprint(a.Err, "\r\x1b[K")
				return
			case <-every.C:
				_, _ = fmt.Fprintf(a.Err, "\r\x1b[K%s of %s", bytesText(p.done.Load()), bytesText(p.total.Load()))
			}
		}
	})
	return p
}

func (p *progress) end() {
	close(p.stop)
	p.ended.Wait()
}

// counted counts the bytes of a reader.
func (p *progress) counted(r io.Reader) io.Reader { return countedReader{r, p} }

type countedReader struct {
	io.Reader

	p *progress
}

func (c countedReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.p.done.Add(int64(n))
	return n, err
}

// bytesText writes a number of bytes for users.
func bytesText(n int64) string {
	unit, size := "B", float64(n)
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1024 {
			break
		}
		unit, size = next, size/1024
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}
