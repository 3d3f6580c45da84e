//go:build unix && !linux

package pgcluster

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// runningIn checks only the postmaster with ps: without /proc there is no way to find orphaned
// backends, and PostgreSQL itself waits for those.
func runningIn(_ string, postmaster int) []int {
	if postmaster <= 0 || syscall.Kill(postmaster, 0) != nil {
		return nil
	}
	out, err := exec.Command("ps", "-o", "comm=", "-p", strconv.Itoa(postmaster)).Output() //nolint:noctx // ends at once
	if err != nil || !strings.Contains(string(out), "postgres") {
		return nil
	}
	return []int{postmaster}
}
