//go:build unix && !linux

package pgcluster

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// runningIn asks ps about the postmaster alone: there is no /proc to find
// orphaned backends by, and PostgreSQL itself waits for those.
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
