package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/gpuaas/gpuaas/agent/linux/mount"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/protocol"
)

// mountedFile is read once by each run of B8, over a new mount.
const mountedFile = 256 << 20

// Mounts compares the sequential read of a file over a mount of our S3 endpoint with one of versitygw. Both mounts have the
// arguments that an agent gives to rclone.
func Mounts(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	if _, err := exec.LookPath("rclone"); err != nil {
		return nil, errors.New("rclone is not installed; scripts/install-deps.sh --storage installs it")
	}
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("this computer does not mount: %w", err)
	}
	_ = fuse.Close()
	e, stop, err := startEndpoints(ctx, l, "b8")
	if err != nil {
		return nil, err
	}
	defer stop()
	size := int64(l.Scaled(mountedFile, 1<<20))
	for _, c := range []*minio.Client{e.ours, e.peer} {
		if _, err := c.PutObject(ctx, bucketName, "mounted", io.LimitReader(zeros{}, size), size, minio.PutObjectOptions{}); err != nil {
			return nil, fmt.Errorf("uploading to %s: %w", c.EndpointURL(), err)
		}
	}
	side := func(name string, c *minio.Client, k protocol.MountKey) lab.Side {
		m := mounted{dir: filepath.Join(l.Dir, "b8-"+name), endpoint: c.EndpointURL().String(), key: k, log: l.Log}
		return func(ctx context.Context) (time.Duration, error) { return m.read(ctx, size) }
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, func(context.Context) error { return nil },
		side("ours", e.ours, protocol.MountKey{AccessKeyID: e.id, Secret: e.secret}), side("peer", e.peer, protocol.MountKey{AccessKeyID: gatewayID, Secret: gatewaySecret}))
	if err != nil {
		return nil, err
	}
	r := lab.Throughput(p, int(size>>20), "B8", "MiB read over a mount of the S3 endpoint / of versitygw").AtLeast(0.7)
	r.Note = fmt.Sprintf("a file of %d MiB, over a new mount in each run", size>>20)
	return []lab.Row{r}, nil
}

// mounted is one side of B8.
type mounted struct {
	dir, endpoint string
	key           protocol.MountKey
	log           io.Writer // of rclone
}

// read mounts, reads the file once, and unmounts. Only the time of the read counts.
func (m mounted) read(ctx context.Context, size int64) (took time.Duration, err error) {
	at := filepath.Join(m.dir, "at")
	if err := os.MkdirAll(at, 0o700); err != nil {
		return 0, fmt.Errorf("making a mount point: %w", err)
	}
	config := filepath.Join(m.dir, "rclone.conf")
	if err := os.WriteFile(config, []byte(mount.Config(m.endpoint, m.key)), 0o600); err != nil {
		return 0, fmt.Errorf("writing the configuration of rclone: %w", err)
	}
	args := append([]string{"mount", "--config=" + config, "--cache-dir=" + filepath.Join(m.dir, "cache")}, mount.Args(bucketName, protocol.Mount{At: "at"}, 1024)...)
	cmd := exec.CommandContext(ctx, "rclone", append(args, at)...) //nolint:gosec // rclone of this computer
	// rclone rejects some settings of AWS clients, such as a bundle of certificates.
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"HOME=" + m.dir, "PATH=" + os.Getenv("PATH")}, m.log, m.log
	lab.Gentle(cmd)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting rclone: %w", err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it unmounts
		_ = cmd.Wait()
		_ = syscall.Unmount(at, syscall.MNT_DETACH)
	}()
	path := filepath.Join(at, "mounted")
	for range 1000 {
		if _, err := os.Stat(path); err == nil {
			return readAll(path, size)
		}
		lab.Wait(ctx, 10*lab.Poll)
	}
	return 0, errors.New("rclone does not mount")
}

func readAll(path string, size int64) (time.Duration, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("reading over a mount: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was read
	began := time.Now()
	n, err := io.Copy(io.Discard, f)
	if err != nil || n != size {
		return 0, fmt.Errorf("%d of %d bytes over a mount: %w", n, size, err)
	}
	return time.Since(began), nil
}
