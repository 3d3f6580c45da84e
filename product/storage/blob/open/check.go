package open

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/product/storage/blob"
)

const (
	// testWithin limits one test: a working store needs well below a second.
	testWithin = 20 * time.Second
	// testEvery is the interval of tests. A test costs about ten requests of the provider.
	testEvery = 5 * time.Minute
	// retryEvery is the interval while the store fails.
	retryEvery = 15 * time.Second
	// signedFor is the life of the signature in the test.
	signedFor = time.Minute
)

// Test writes, reads, signs and deletes one object, and aborts an upload of one part. These are the rights that the server
// needs. A killed test leaves an object without a row, which is collected as all others are.
func Test(ctx context.Context, s blob.Store) error {
	ctx, cancel := context.WithTimeout(ctx, testWithin)
	defer cancel()
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	content := []byte("a test of the object store " + id.String())
	if _, err := s.Put(ctx, id, bytes.NewReader(content), int64(len(content))); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	err = errors.Join(read(ctx, s, id, content), signed(ctx, s, id, content), list(ctx, s, id), upload(ctx, s, id, content))
	if gone := s.Delete(ctx, id); gone != nil {
		return errors.Join(err, fmt.Errorf("delete: %w", gone))
	}
	if _, absent := s.Stat(ctx, id); !errors.Is(absent, blob.ErrNotFound) {
		err = errors.Join(err, absent, errors.New("the object is not gone after its deletion"))
	}
	return err
}

func read(ctx context.Context, s blob.Store, id uuid.UUID, content []byte) error {
	r, err := s.Get(ctx, id, 2, 4)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if !bytes.Equal(got, content[2:6]) {
		return errors.New("read: other bytes than were written")
	}
	return nil
}

// signed sends the request that a client would send.
func signed(ctx context.Context, s blob.Store, id uuid.UUID, content []byte) error {
	signed, err := s.Sign(ctx, blob.Request{Method: http.MethodGet, ID: id, Life: signedFor, Answer: map[string]string{"Content-Disposition": "attachment"}})
	if errors.Is(err, blob.ErrUnsigned) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, signed.URL, nil)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return errors.New("read by a signed URL: the address cannot be reached") // the error contains the signature
	}
	got, err := io.ReadAll(io.LimitReader(response.Body, int64(len(content))+1))
	if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK || !bytes.Equal(got, content) {
		return fmt.Errorf("read by a signed URL: status %d", response.StatusCode)
	}
	return nil
}

func list(ctx context.Context, s blob.Store, id uuid.UUID) error {
	before := id
	before[len(before)-1]-- // at worst another object is the first
	for _, err := range s.List(ctx, before) {
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		break
	}
	return nil
}

func upload(ctx context.Context, s blob.Store, id uuid.UUID, content []byte) error {
	u, err := s.Begin(ctx, id)
	if err != nil {
		return fmt.Errorf("begin an upload: %w", err)
	}
	sum := sha256.Sum256(content)
	_, err = s.Sign(ctx, blob.Request{Method: http.MethodPut, ID: id, Upload: u.Handle, Part: 1, Size: int64(len(content)), SHA256: sum[:], Life: signedFor})
	if errors.Is(err, blob.ErrUnsigned) {
		err = nil
	}
	part, putErr := s.PutPart(ctx, u, 1, bytes.NewReader(content), int64(len(content)))
	parts, partsErr := s.Parts(ctx, u)
	if err = errors.Join(err, putErr, partsErr); err == nil && (len(parts) != 1 || parts[0] != part) {
		err = errors.New("the part is not listed")
	}
	if err != nil {
		err = fmt.Errorf("upload a part: %w", err)
	}
	if aborted := s.Abort(ctx, u); aborted != nil {
		err = errors.Join(err, fmt.Errorf("abort an upload: %w", aborted))
	}
	return err
}

// Monitor tests an object store at start and from time to time, so that its health is known before a request needs it.
type Monitor struct {
	Store blob.Store
	Log   *slog.Logger

	mu      sync.Mutex
	failure string
}

// Run tests until the context ends. It logs every change.
func (m *Monitor) Run(ctx context.Context) {
	for {
		timer := time.NewTimer(m.test(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// test returns the time until the next test.
func (m *Monitor) test(ctx context.Context) time.Duration {
	err := Test(ctx, m.Store)
	if ctx.Err() != nil {
		return testEvery
	}
	text := ""
	if err != nil {
		text = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	m.mu.Lock()
	before := m.failure
	m.failure = text
	m.mu.Unlock()
	switch {
	case err != nil && before == "":
		m.Log.ErrorContext(ctx, "test the object store", "component", "storage", "err", text)
	case err == nil && before != "":
		m.Log.InfoContext(ctx, "the object store works again", "component", "storage")
	}
	if err != nil {
		return retryEvery
	}
	return testEvery
}

// Failure returns why the last test failed, or "".
func (m *Monitor) Failure() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}
