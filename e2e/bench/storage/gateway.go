package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/gpuaas/gpuaas/e2e/bench/api"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// bucketName is the bucket of both sides of B4: the name of the project, and a folder of the peer.
const bucketName = "default"

// Gateway compares the S3 endpoint with versitygw over a folder of the same disk, with one client for both, and measures how the
// memory of the server grows.
func Gateway(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	e, stop, err := startEndpoints(ctx, l, "b4")
	if err != nil {
		return nil, err
	}
	defer stop()
	c := s3Load{size: int64(l.Scaled(fileSize, 1<<20))}
	var rows []lab.Row
	var before float64
	for _, m := range []struct {
		id, path string
		side     func(*minio.Client) lab.Side
	}{
		{"B4", "upload of a file to the S3 endpoint / to versitygw, which syncs nothing", c.upload},
		{"B4-read", "download of a file from the S3 endpoint / from versitygw", c.download},
	} {
		p, err := l.Alternate(ctx, lab.LeastPairs, func(context.Context) error {
			if before == 0 {
				before = lab.Resident(e.server.PID())
			}
			return nil
		}, m.side(e.ours), m.side(e.peer))
		if err != nil {
			return rows, err
		}
		r := lab.Throughput(p, files, m.id, m.path).AtLeast(0.6)
		r.Note = fmt.Sprintf("%d files of %d MiB a run, one after the other", files, c.size>>20)
		rows = append(rows, r)
	}
	after := lab.Resident(e.server.PID())
	grown := lab.Row{ID: "B4-rss", Path: "memory of the server after these transfers / before", Unit: " MiB", Ours: after, Peer: before, Ratio: after / before, Min: after / before, Max: after / before}
	grown.Note = fmt.Sprintf("%d MiB were transferred", 2*int64(files*(lab.LeastPairs+1))*c.size>>20)
	return append(rows, grown.AtMost(1.5)), nil
}

// endpoints are the S3 endpoint and versitygw with a client of each.
type endpoints struct {
	server     interface{ PID() int }
	ours, peer *minio.Client
	id, secret string // access key of ours
}

// startEndpoints starts both. The name is that of the folder of the server.
func startEndpoints(ctx context.Context, l *lab.Lab, name string) (e endpoints, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var stops []func()
	stop = func() {
		cancel()
		for _, s := range stops {
			s()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	server, err := api.Stall(ctx, l, name)
	if err != nil {
		return e, stop, err
	}
	e.server, stops = server, append(stops, func() { server.Stop() })
	if e.id, e.secret, err = server.AccessKey(ctx); err != nil {
		return e, stop, err
	}
	if e.ours, err = s3Client(server.StorageAddress(), e.id, e.secret); err != nil {
		return e, stop, err
	}
	peer, stopPeer, err := startGateway(ctx, l)
	if err != nil {
		return e, stop, err
	}
	e.peer, stops = peer, append(stops, stopPeer)
	return e, stop, nil
}

// s3Client signs the chunks of each upload, as clients without TLS do.
func s3Client(address, id, secret string) (*minio.Client, error) {
	c, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4(id, secret, ""), Region: "us-east-1", BucketLookup: minio.BucketLookupPath})
	if err != nil {
		return nil, fmt.Errorf("making an S3 client: %w", err)
	}
	return c, nil
}

// s3Load sends and receives files of one size.
type s3Load struct{ size int64 }

func (s s3Load) upload(c *minio.Client) lab.Side {
	return func(ctx context.Context) (time.Duration, error) {
		for i := range files {
			_, err := c.PutObject(ctx, bucketName, fmt.Sprintf("f%d", i), io.LimitReader(zeros{}, s.size), s.size, minio.PutObjectOptions{DisableMultipart: true})
			if err != nil {
				return 0, fmt.Errorf("uploading to %s: %w", c.EndpointURL(), err)
			}
		}
		return 0, nil
	}
}

func (s s3Load) download(c *minio.Client) lab.Side {
	return func(ctx context.Context) (time.Duration, error) {
		for i := range files {
			o, err := c.GetObject(ctx, bucketName, fmt.Sprintf("f%d", i), minio.GetObjectOptions{})
			if err != nil {
				return 0, fmt.Errorf("downloading from %s: %w", c.EndpointURL(), err)
			}
			n, err := io.Copy(io.Discard, o)
			if err = errors.Join(err, o.Close()); err != nil || n != s.size {
				return 0, fmt.Errorf("%d bytes from %s: %w", n, c.EndpointURL(), err)
			}
		}
		return 0, nil
	}
}

// gatewayID and gatewaySecret are the access key of versitygw.
const gatewayID, gatewaySecret = "bench", "bench-secret"

// startGateway starts versitygw over a folder with the bucket.
func startGateway(ctx context.Context, l *lab.Lab) (*minio.Client, func(), error) {
	binary, err := gateway(ctx)
	if err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(l.Dir, "b4-peer")
	if err := os.MkdirAll(filepath.Join(dir, bucketName), 0o700); err != nil {
		return nil, nil, fmt.Errorf("making a folder: %w", err)
	}
	free, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("finding a port: %w", err)
	}
	address := free.Addr().String()
	_ = free.Close()                                                                                                                                             // the peer needs the port
	cmd := exec.CommandContext(ctx, binary, "--quiet", "--health", "/health", "--access", gatewayID, "--secret", gatewaySecret, "--port", address, "posix", dir) //nolint:gosec // our own tool
	cmd.Stdout, cmd.Stderr = l.Log, l.Log
	lab.Gentle(cmd)
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting versitygw: %w", err)
	}
	stop := func() { _ = cmd.Wait() } // it was ordered to end
	for range 1000 {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health", nil)
		if err != nil {
			break
		}
		if w, err := http.DefaultClient.Do(r); err == nil {
			_ = w.Body.Close()
			c, err := s3Client(address, gatewayID, gatewaySecret)
			return c, stop, err
		}
		lab.Wait(ctx, 10*lab.Poll)
	}
	_ = cmd.Process.Kill()
	stop()
	return nil, nil, errors.New("versitygw does not respond")
}

var gatewayLine = regexp.MustCompile(`github\.com/versity/versitygw v(\S+)`)

// gateway returns the path of versitygw, and builds it in its own module if it is missing, as make test-s3 does.
func gateway(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	root := strings.TrimSpace(string(out))
	tool := filepath.Join(root, "tools", "versitygw")
	text, err := os.ReadFile(filepath.Join(tool, "go.mod"))
	version := gatewayLine.FindSubmatch(text)
	if err != nil || version == nil {
		return "", fmt.Errorf("tools/versitygw/go.mod names no version: %w", err)
	}
	path := filepath.Join(root, "bin", "versitygw-"+string(version[1]))
	if _, err := os.Stat(path); err == nil { //nolint:gosec // in this repository
		return path, nil
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/versity/versitygw/cmd/versitygw") //nolint:gosec // as above
	build.Dir, build.Env = tool, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("versitygw cannot be built here: %w: %.200s", err, out)
	}
	return path, nil
}
