package stuck

import (
	"syscall"
	"testing"
	"time"
)

// TestStuck ends as a test that somebody, or its deadline, has to end.
func TestStuck(t *testing.T) {
	t.Log("last words")
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
}
