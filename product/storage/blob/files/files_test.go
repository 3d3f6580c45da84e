package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/blob/blobtest"
)

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestContract(t *testing.T) {
	t.Parallel()
	blobtest.Contract(t, http.DefaultClient, func(t *testing.T) blob.Store {
		t.Helper()
		dir := t.TempDir()
		s := open(t, dir)
		t.Cleanup(func() {
			if names, err := os.ReadDir(filepath.Join(dir, tmpDir)); err != nil || len(names) > 0 {
				t.Errorf("temporary files remain: %v, %v", names, err)
			}
		})
		return s
	})
}

// Other users of the computer can read nothing, and names contain only the id.
func TestModesAndNames(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "objects")
	s := open(t, dir)
	id := uuid.MustParse("01900000-0000-7000-8000-00000000abcd")
	if _, err := s.Put(t.Context(), id, bytes.NewReader(nil), 0); err != nil {
		t.Fatal(err)
	}
	u, err := s.Begin(t.Context(), uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutPart(t.Context(), u, 1, bytes.NewReader(nil), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "objects/cd/ab", id.String())); err != nil {
		t.Error(err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if want := map[bool]fs.FileMode{true: dirMode, false: fileMode}[d.IsDir()]; err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A link in the folder leads nowhere else.
func TestNothingLeavesTheFolder(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	s := open(t, dir)
	id := uuid.New()
	name := filepath.Join(elsewhere, "secret")
	if err := os.WriteFile(name, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), id, bytes.NewReader(nil), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(name, filepath.Join(dir, objectPath(id))); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Get(t.Context(), id, 0, -1); err == nil {
		got, _ := io.ReadAll(r)
		t.Errorf("read %q", got)
	}
}

// A killed process leaves temporary files. Those of another process that still writes stay.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	old := time.Now().Add(-leftoverAfter - time.Minute)
	leave := func() {
		for _, name := range []string{"old", "new", "folder/part"} {
			path := filepath.Join(dir, tmpDir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"old", "folder"} {
			if err := os.Chtimes(filepath.Join(dir, tmpDir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, remove := range map[string]func(){
		"at start": func() { open(t, dir) },
		"by Uploads": func() {
			for _, err := range s.Uploads(t.Context(), old) {
				t.Error(err)
			}
		},
	} {
		leave()
		remove()
		if left, err := os.ReadDir(filepath.Join(dir, tmpDir)); err != nil || len(left) != 1 || left[0].Name() != "new" {
			t.Errorf("%s: %v, %v", name, left, err)
		}
	}
}

// A process that was killed within Complete leaves a closed upload. A repetition completes it.
func TestCompleteContinuesAfterAKill(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(s *Store, u blob.Upload, l partList) error{
		"after the upload was closed": func(*Store, blob.Upload, partList) error { return nil },
		"after the list was written": func(s *Store, u blob.Upload, l partList) error {
			return s.writeList(context.Background(), filepath.Join(joiningDir, folderName(u)), l)
		},
		"before the unlisted part was removed": func(s *Store, u blob.Upload, l partList) error {
			closed := filepath.Join(joiningDir, folderName(u))
			return errors.Join(s.writeList(context.Background(), closed, l), s.place(closed, objectPath(u.ID)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir)
			u, err := s.Begin(t.Context(), uuid.New())
			if err != nil {
				t.Fatal(err)
			}
			part, err := s.PutPart(t.Context(), u, 1, bytes.NewReader([]byte("content")), 7)
			_, unlisted := s.PutPart(t.Context(), u, 2, bytes.NewReader([]byte("unlisted")), 8)
			closed := filepath.Join(joiningDir, folderName(u))
			moved := s.root.Rename(filepath.Join(uploadsDir, folderName(u)), closed)
			if err := errors.Join(err, unlisted, moved, stop(s, u, partList{u.Handle, []blob.Part{part}})); err != nil {
				t.Fatal(err)
			}
			again := open(t, dir)
			if name != "before the unlisted part was removed" {
				if got, err := again.Parts(t.Context(), u); err != nil || len(got) != 2 {
					t.Errorf("parts %v, %v", got, err)
				}
			}
			if err := again.Complete(t.Context(), u, []blob.Part{part}); err != nil {
				t.Fatal(err)
			}
			r, err := again.Get(t.Context(), u.ID, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || string(got) != "content" {
				t.Errorf("%q, %v", got, err)
			}
			_ = r.Close()
			if _, err := again.root.Stat(filepath.Join(objectPath(u.ID), partName(2))); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the unlisted part: %v", err)
			}
		})
	}
}

// A part that is replaced while Complete runs is in the object as a whole, or not at all.
func TestAPartIsReplacedDuringComplete(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	completed := 0
	for range 50 {
		u, err := s.Begin(t.Context(), uuid.New())
		if err != nil {
			t.Fatal(err)
		}
		old := blobtest.Bytes(1000)
		part, err := s.PutPart(t.Context(), u, 1, bytes.NewReader(old), 1000)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := s.PutPart(t.Context(), u, 1, bytes.NewReader(blobtest.Bytes(1000)), 1000)
			if err != nil && !errors.Is(err, blob.ErrNotFound) {
				t.Error(err)
			}
		})
		err = s.Complete(t.Context(), u, []blob.Part{part})
		wg.Wait()
		switch {
		case errors.Is(err, blob.ErrPart):
			continue
		case err != nil:
			t.Fatal(err)
		}
		completed++
		r, err := s.Get(t.Context(), u.ID, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || !bytes.Equal(got, old) {
			t.Fatalf("the object has other bytes: %v", err)
		}
	}
	t.Logf("%d of 50 were completed", completed)
}

// A rename into a folder may end after the folder was moved, so Complete waits for the replacement of a part.
func TestCompleteWaitsForAPart(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	u, err := s.Begin(t.Context(), uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	part, err := s.PutPart(t.Context(), u, 1, bytes.NewReader([]byte("old")), 3)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(uploadsDir, folderName(u))
	lock, err := s.lock(dir, syscall.LOCK_SH) // as PutPart does
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Complete(t.Context(), u, []blob.Part{part}) }()
	select {
	case err := <-done:
		t.Fatalf("Complete has not waited: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	tmp, err := s.write(t.Context(), bytes.NewReader([]byte("new")), 3)
	if err = errors.Join(err, s.root.Rename(tmp.name, filepath.Join(dir, partName(1))), lock.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, blob.ErrPart) {
		t.Errorf("complete: %v", err)
	}
}

func TestADamagedListIsNoObject(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "another format": "x a 1\n1 7 t\n", "fewer lines": listFormat + " h 2\n1 7 t\n", "no number": listFormat + " h 1\nx 7 t\n", "no size": listFormat + " h 1\n1 x t\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			id := uuid.New()
			if err := errors.Join(s.root.MkdirAll(objectPath(id), 0o700), s.root.WriteFile(filepath.Join(objectPath(id), listName), []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Stat(t.Context(), id); err == nil || errors.Is(err, blob.ErrNotFound) {
				t.Errorf("stat: %v", err)
			}
		})
	}
}

// A page is less than all objects where there are more than its limit.
func TestPagesOfIDs(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for range 10 {
		if _, err := s.Put(t.Context(), uuid.New(), bytes.NewReader(nil), 0); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.page(t.Context(), uuid.Nil, 100)
	if err != nil || len(all) != 10 {
		t.Fatalf("%d, %v", len(all), err)
	}
	for after := range 10 {
		got, err := s.page(t.Context(), all[after], 3)
		if want := all[after+1 : min(after+4, 10)]; err != nil || len(got) != len(want) || len(want) > 0 && got[len(got)-1] != want[len(want)-1] {
			t.Errorf("after %d: %v, want %v, %v", after, got, want, err)
		}
	}
}

// fullDir is set in the process that may mount a small file system.
const fullDir = "GPUAAS_TEST_FULL_DIR"

// A disk without space is ErrFull, and the temporary file is gone, so that smaller objects find space.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(fullDir)
	if dir == "" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFullDisk$", "-test.count=1")
		again.Env = append(os.Environ(), fullDir+"="+t.TempDir())
		again.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		output, err := again.CombinedOutput()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
			t.Skipf("this system has no user namespaces: %v", err)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=700"); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	u, err := s.Begin(t.Context(), uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	for range 3 {
		_, err := s.Put(t.Context(), id, bytes.NewReader(blobtest.Bytes(3<<20)), 3<<20)
		_, part := s.PutPart(t.Context(), u, 1, bytes.NewReader(blobtest.Bytes(3<<20)), -1)
		if !errors.Is(err, blob.ErrFull) || !errors.Is(part, blob.ErrFull) {
			t.Fatalf("%v, part: %v", err, part)
		}
		if _, err := s.Stat(t.Context(), id); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("stat: %v", err)
		}
	}
	if left, err := s.names(tmpDir); err != nil || len(left) > 0 {
		t.Errorf("temporary files %v, %v", left, err)
	}
	if _, err := s.Put(t.Context(), id, bytes.NewReader(blobtest.Bytes(1<<20)), 1<<20); err != nil {
		t.Errorf("a smaller object: %v", err)
	}
	space, _, err := s.Space(t.Context())
	if err != nil || space.Used < 1<<20 || space.Used+space.Free != 2<<20 {
		t.Errorf("space %+v, %v", space, err)
	}
}

// BenchmarkDownload compares Get through net/http with a static file server.
func BenchmarkDownload(b *testing.B) {
	const size = 64 << 20
	dir := b.TempDir()
	s := open(b, dir)
	one, u := uuid.New(), blob.Upload{ID: uuid.New()}
	content := blobtest.Bytes(size)
	_, err := s.Put(b.Context(), one, bytes.NewReader(content), size)
	u, beginErr := s.Begin(b.Context(), u.ID)
	if err = errors.Join(err, beginErr); err != nil {
		b.Fatal(err)
	}
	var parts []blob.Part
	for i := range 8 {
		p, err := s.PutPart(b.Context(), u, i+1, bytes.NewReader(content[i*size/8:(i+1)*size/8]), size/8)
		if err != nil {
			b.Fatal(err)
		}
		parts = append(parts, p)
	}
	if err := s.Complete(b.Context(), u, parts); err != nil {
		b.Fatal(err)
	}
	object := func(id uuid.UUID) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, err := s.Get(r.Context(), id, 0, -1)
			if err != nil {
				b.Error(err)
				return
			}
			defer body.Close()
			w.Header().Set("Content-Length", "67108864")
			_, _ = io.Copy(w, body)
		}
	}
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{
		{"static", http.FileServer(http.Dir(filepath.Join(dir, filepath.Dir(objectPath(one)))))},
		{"file", object(one)},
		{"parts", object(u.ID)},
	} {
		b.Run(c.name, func(b *testing.B) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			b.SetBytes(size)
			for b.Loop() {
				resp, err := http.Get(server.URL + "/" + one.String())
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != size {
					b.Fatal(n, err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}
