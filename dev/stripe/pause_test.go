package stripe

import (
	"testing"
	"time"
)

func TestPausesGrow(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 7: time.Minute, 1000: time.Minute} {
		if got := pause(attempts); got != want {
			t.Errorf("after %d attempts %s, want %s", attempts, got, want)
		}
	}
}
