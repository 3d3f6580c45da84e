package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// open returns the bytes of a file from an offset. The response to another offset than the requested one begins at 0: the
// file is no longer that of the ETag.
func open(ctx context.Context, c *client.Client, p place, offset int64, etag string) (io.ReadCloser, int64, error) {
	params := oapi.DownloadStorageParams{Path: p.path}
	ranged := func(_ context.Context, r *http.Request) error {
		if offset > 0 {
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
			r.Header.Set("If-Range", etag)
		}
		return nil
	}
	resp, err := c.DownloadStorage(ctx, &params, p.in(c), ranged)
	if err == nil && resp.StatusCode == http.StatusFound {
		_ = resp.Body.Close()
		resp, err = redirect(ctx, c, resp.Header.Get("Location"), offset)
	}
	if err != nil {
		if client.CodeOf(err) != errs.Internal {
			return nil, 0, err
		}
		return nil, 0, c.Unreachable(err)
	}
	switch resp.StatusCode {
	case http.StatusPartialContent:
		return resp.Body, offset, nil
	case http.StatusOK:
		return resp.Body, 0, nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, client.BodyLimit))
	_ = resp.Body.Close()
	return nil, 0, c.Problem(resp, body)
}

// redirect requests the bytes from the object store, which receives no token. A backend object never changes, so that the
// range needs no condition.
func redirect(ctx context.Context, c *client.Client, location string, offset int64) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return nil, err
	}
	if offset > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	direct, err := directClient(c)
	if err != nil {
		return nil, err
	}
	return direct.Do(r)
}

// directClient sends to the object store.
func directClient(c *client.Client) (*http.Client, error) {
	transport, err := client.TransportFor(c.Settings.CA)
	return &http.Client{Transport: transport}, err
}

// receive downloads a file into a folder. The file appears as a whole; what has arrived of an interrupted download is
// continued while the file on the server is the same. No path leaves the folder.
func (t *transfer) receive(ctx context.Context, p place, o oapi.StorageObject, into *os.Root, to string) error {
	if dir := path.Dir(to); dir != "." {
		if err := into.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	partial := path.Join(path.Dir(to), "."+path.Base(to)+"."+strings.Trim(o.Etag, `"`)+".part")
	for try := 1; ; try++ {
		err := t.receiveRest(ctx, p, o, into, partial)
		if err == nil {
			return into.Rename(partial, to)
		}
		if broken := (&brokenOffError{}); !errors.As(err, &broken) || try == directTries || ctx.Err() != nil {
			return err
		}
	}
}

// brokenOffError means that a part of the bytes has arrived.
type brokenOffError struct{ cause error }

func (b *brokenOffError) Error() string { return "the download broke off: " + b.cause.Error() }
func (b *brokenOffError) Unwrap() error { return b.cause }

func (t *transfer) receiveRest(ctx context.Context, p place, o oapi.StorageObject, into *os.Root, partial string) error {
	f, err := into.OpenFile(partial, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	err = t.fill(ctx, p, o, f)
	if err = errors.Join(err, f.Close()); errors.Is(err, errOtherBytes) {
		err = errors.Join(err, into.Remove(partial))
	}
	return err
}

// errOtherBytes means that a download does not have the SHA-256 that the server has named.
var errOtherBytes = &output.CommandError{Message: "the received bytes differ from the SHA-256 of the file", Code: string(errs.Internal), Try: "the same command again", Exit: output.ExitFailure}

// fill completes a partial file, and compares its SHA-256.
func (t *transfer) fill(ctx context.Context, p place, o oapi.StorageObject, f *os.File) error {
	sum := sha256.New()
	has, err := io.Copy(sum, f)
	if err != nil {
		return err
	}
	if has > o.SizeBytes {
		has = 0
	}
	if has < o.SizeBytes || has == 0 {
		body, from, err := open(ctx, t.c, p, has, o.Etag)
		if err != nil {
			return err
		}
		defer body.Close() //nolint:errcheck // it was read
		if from != has || has == 0 {
			sum.Reset()
			if err := errors.Join(f.Truncate(0), rewind(f)); err != nil {
				return err
			}
		}
		t.progress.done.Add(from)
		if _, err := io.Copy(io.MultiWriter(f, sum), t.counted(body)); err != nil {
			return &brokenOffError{err}
		}
	}
	if o.Sha256 != nil && hex.EncodeToString(sum.Sum(nil)) != *o.Sha256 {
		return errOtherBytes
	}
	return f.Sync()
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// same reports whether a local file has the bytes of an object.
func same(ctx context.Context, name string, info fs.FileInfo, o oapi.StorageObject, sizeOnly bool) (bool, error) {
	if info.Size() != o.SizeBytes {
		return false, nil
	}
	if sizeOnly || o.Sha256 == nil {
		return sizeOnly, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // it was read
	s, err := sumFile(ctx, f, info.Size())
	want, _ := hex.DecodeString(*o.Sha256)
	return bytes.Equal(s.whole, want), err
}
