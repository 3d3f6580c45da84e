package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/api"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// The files of B5, and how many of them both tools send at the same time.
const (
	smallFiles   = 10_000
	smallSize    = 4 << 10
	smallFolders = 100
	transfers    = 8
)

// SmallFiles compares gpuaas storage sync with rclone copy: both send a folder of small files to the same server, one through the
// API and the other through the S3 endpoint.
func SmallFiles(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	rclone, err := exec.LookPath("rclone")
	if err != nil {
		return nil, errors.New("rclone is not installed; scripts/install-deps.sh --storage installs it")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := api.Stall(ctx, l, "b5")
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); s.Stop() }()
	id, secret, err := s.AccessKey(ctx)
	if err != nil {
		return nil, err
	}
	binary, err := l.Gpuaas(ctx)
	if err != nil {
		return nil, err
	}
	n := l.Scaled(smallFiles, 100)
	from, err := makeSmall(l, n)
	if err != nil {
		return nil, err
	}
	runs := 0
	side := func(program string, env []string, args func(folder string) []string) lab.Side {
		return func(ctx context.Context) (time.Duration, error) {
			runs++
			folder := fmt.Sprintf("run%d", runs)
			cmd := exec.CommandContext(ctx, program, args(folder)...) //nolint:gosec // our own binary, and rclone
			// rclone rejects some settings of AWS clients, such as a bundle of certificates.
			cmd.Env = append([]string{"HOME=" + l.Dir, "PATH=" + os.Getenv("PATH")}, env...)
			if out, err := cmd.CombinedOutput(); err != nil {
				return 0, fmt.Errorf("%s: %w: %.300s", filepath.Base(program), err, out)
			}
			return 0, nil
		}
	}
	ours := side(binary, []string{"GPUAAS_URL=http://" + s.Address(), "GPUAAS_TOKEN=" + lab.Token(0), "GPUAAS_CONFIG_DIR=" + filepath.Join(l.Dir, "b5-config")},
		func(folder string) []string {
			return []string{"storage", "sync", "--parallel", strconv.Itoa(transfers), from, bucketName + ":" + folder}
		})
	peer := side(rclone, []string{
		"RCLONE_CONFIG=" + filepath.Join(l.Dir, "b5-rclone.conf"), "RCLONE_S3_PROVIDER=Other", "RCLONE_S3_ACCESS_KEY_ID=" + id, "RCLONE_S3_SECRET_ACCESS_KEY=" + secret,
		"RCLONE_S3_ENDPOINT=http://" + s.StorageAddress(), "RCLONE_S3_FORCE_PATH_STYLE=true", "RCLONE_S3_NO_CHECK_BUCKET=true",
	}, func(folder string) []string {
		return []string{"copy", "--size-only", "--transfers", strconv.Itoa(transfers), from, ":s3:" + bucketName + "/" + folder}
	})
	p, err := l.Alternate(ctx, lab.LeastPairs, func(ctx context.Context) error { return l.Exec(ctx, s.Url, `CHECKPOINT`) }, ours, peer)
	if err != nil {
		return nil, err
	}
	stored, err := lab.One[int](ctx, s.Url, `SELECT count(*) FROM storage_objects WHERE type = 'file'`)
	if err == nil && stored != runs*n {
		err = fmt.Errorf("%d runs stored %d files instead of %d", runs, stored, runs*n)
	}
	r := lab.Throughput(p, n, "B5", fmt.Sprintf("%d files of 4 KiB by gpuaas storage sync / by rclone copy to the S3 endpoint", n)).AtLeast(1)
	r.Note = fmt.Sprintf("%d files at the same time, each of them synced", transfers)
	return []lab.Row{r}, err
}

// makeSmall writes different files into folders.
func makeSmall(l *lab.Lab, n int) (string, error) {
	dir := filepath.Join(l.Dir, "b5-files")
	for i := range n {
		folder := filepath.Join(dir, strconv.Itoa(i%smallFolders))
		if i < smallFolders {
			if err := os.MkdirAll(folder, 0o700); err != nil {
				return "", fmt.Errorf("making a folder: %w", err)
			}
		}
		text := bytes.Repeat(fmt.Appendf(nil, "%08d", i), smallSize/8)
		if err := os.WriteFile(filepath.Join(folder, strconv.Itoa(i)), text, 0o600); err != nil {
			return "", fmt.Errorf("writing a file: %w", err)
		}
	}
	return dir, nil
}
