package sweep

import (
	"context"

	"golang.org/x/sys/unix"
)

// SweepBelow removes the tenant's files below a folder as a sweep does in a file system.
func (t Tenant) SweepBelow(ctx context.Context, dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	spent := budgets{}
	err = t.sweepTree(ctx, fd, dir, spent)
	for _, uid := range spent.exceeded() {
		t.skipped(uid)
	}
	return err
}

// SweepNamed removes the files that are about the tenant by their names.
func (t Tenant) SweepNamed(ctx context.Context) error { return t.sweepNamed(ctx) }

// Without and ParseMounts read what a tenant may have written.
var (
	Without     = without
	ParseMounts = parseMounts
)
