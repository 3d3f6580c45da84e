package telemetry_test

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaas/internal/telemetry"
)

// written counts writes and stores their content.
type written struct {
	mu    sync.Mutex
	text  strings.Builder
	times int
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.times++
	return w.text.Write(p)
}

func (w *written) is() (lines, times int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.text.String(), "\n"), w.times
}

func TestLinesAreWrittenTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var to written
		w := telemetry.NewLogWriter(&to)
		log := slog.New(w.Urgent(slog.NewJSONHandler(w, nil))).With("component", "test")
		for range 100 {
			log.Info("request")
		}
		if lines, times := to.is(); lines != 0 || times != 0 {
			t.Errorf("at once: %d lines in %d writes", lines, times)
		}
		time.Sleep(time.Second)
		if lines, times := to.is(); lines != 100 || times != 1 {
			t.Errorf("a second later: %d lines in %d writes", lines, times)
		}
		log.Info("request")
		log.WithGroup("g").Warn("trouble")
		if lines, times := to.is(); lines != 102 || times != 2 {
			t.Errorf("after a warning: %d lines in %d writes", lines, times)
		}
		log.Info("last line")
		w.Flush()
		if lines, _ := to.is(); lines != 103 {
			t.Errorf("after the last line: %d lines", lines)
		}
	})
}

func TestNoLineIsLostOrTorn(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 5000
	var to written
	w := telemetry.NewLogWriter(&to)
	var all sync.WaitGroup
	for i := range writers {
		line := []byte(strings.Repeat(strconv.Itoa(i), 40) + "\n")
		all.Go(func() {
			for range each {
				if n, err := w.Write(line); n != len(line) || err != nil {
					t.Errorf("wrote %d, %v", n, err)
				}
			}
		})
	}
	all.Wait()
	w.Flush()
	count := map[string]int{}
	for line := range strings.Lines(to.text.String()) {
		count[line]++
	}
	for line, n := range count {
		if n != each {
			t.Errorf("%q occurs %d times", line, n)
		}
	}
	if len(count) != writers {
		t.Errorf("%d different lines", len(count))
	}
}
