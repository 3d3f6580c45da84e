package pgcluster

import (
	"os"
	"path/filepath"
	"strconv"
)

// runningIn lists the processes whose working folder is the data directory.
// Every PostgreSQL process goes there first and stays, backends included, so
// this also finds those whose postmaster was killed.
func runningIn(data string, _ int) (pids []int) {
	data, err := filepath.EvalSymlinks(data)
	if err != nil {
		return nil
	}
	entries, _ := os.ReadDir("/proc") // without /proc PostgreSQL's own checks remain
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if cwd, err := os.Readlink("/proc/" + entry.Name() + "/cwd"); err == nil && cwd == data {
			pids = append(pids, pid)
		}
	}
	return pids
}
