// Package files stores backend objects in a folder of the local disk. Several processes may use the folder at the same
// time: an object, a part or an upload appears and disappears by one rename.
//
//	objects/ab/cd/ID     an object: a file, or a folder of parts with their list
//	uploads/ID_HANDLE/   the parts of an upload, by number, and its lock
//	joining/ID_HANDLE/   an upload that Complete has closed
//	tmp/                 files that are being written, and folders that are being removed
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

const (
	dirMode  = 0o700
	fileMode = 0o600

	objectsDir = "objects"
	uploadsDir = "uploads"
	joiningDir = "joining"
	tmpDir     = "tmp"
)

// leftoverAfter is longer than a request may wait between two bytes of a body.
const leftoverAfter = 24 * time.Hour

// Store is a folder. No path leaves the root.
type Store struct {
	root  *os.Root
	clock clock.Clock
}

var _ blob.Store = (*Store)(nil)

// Open opens the folder, and creates it if it does not exist. Open removes temporary files that a process has left there
// a day ago or earlier; so does Uploads.
func Open(dir string, c clock.Clock) (*Store, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil { //nolint:gosec // an operator names it
		return nil, fmt.Errorf("creating the folder of objects: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of objects: %w", err)
	}
	s := &Store{root: root, clock: c}
	for _, name := range []string{objectsDir, uploadsDir, joiningDir, tmpDir} {
		if err = root.Mkdir(name, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			break
		}
		err = nil
	}
	if err == nil {
		err = errors.Join(s.sync("."), s.removeLeftovers())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the folder of objects: %w", full(err)), root.Close())
	}
	return s, nil
}

// Close closes the folder.
func (s *Store) Close() error { return s.root.Close() }

// objectPath uses the last bytes of the id, because those of a version 7 begin with its time: all new objects would be
// in one folder.
func objectPath(id uuid.UUID) string {
	return path.Join(objectsDir, fmt.Sprintf("%02x", id[15]), fmt.Sprintf("%02x", id[14]), id.String())
}

// Put stores a backend object as one file.
func (s *Store) Put(ctx context.Context, id uuid.UUID, r io.Reader, size int64) (int64, error) {
	tmp, err := s.write(ctx, r, size)
	if err != nil {
		return 0, err
	}
	if err := s.place(tmp.name, objectPath(id)); err != nil {
		return 0, errors.Join(full(err), s.remove(tmp.name))
	}
	return tmp.size, nil
}

// Stat describes a backend object.
func (s *Store) Stat(_ context.Context, id uuid.UUID) (blob.Info, error) {
	info, err := s.root.Lstat(objectPath(id))
	if err != nil {
		return blob.Info{}, missing(err)
	}
	size := info.Size()
	if info.IsDir() {
		list, err := s.readList(objectPath(id))
		if err != nil {
			return blob.Info{}, missing(err)
		}
		size = list.size()
	}
	return blob.Info{ID: id, Size: size, Modified: info.ModTime().UTC()}, nil
}

// Delete removes a backend object. An object of parts disappears before its parts do.
func (s *Store) Delete(_ context.Context, id uuid.UUID) error { return s.discard(objectPath(id)) }

// Sign returns ErrUnsigned.
func (*Store) Sign(context.Context, blob.Request) (blob.Signed, error) {
	return blob.Signed{}, blob.ErrUnsigned
}

// Space returns the capacity of the file system.
func (s *Store) Space(context.Context) (blob.Space, bool, error) {
	dir, err := s.root.Open(".")
	if err != nil {
		return blob.Space{}, false, err
	}
	defer dir.Close() //nolint:errcheck // read only
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(int(dir.Fd()), &st); err != nil {
		return blob.Space{}, false, fmt.Errorf("reading the capacity of the file system: %w", err)
	}
	block := int64(st.Bsize)                                                                              //nolint:unconvert // another type on other systems
	return blob.Space{Used: int64(st.Blocks-st.Bfree) * block, Free: int64(st.Bavail) * block}, true, nil //nolint:gosec // bytes of a disk
}

// buffers are larger than those of io.Copy: fewer calls write more bytes.
var buffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// tmpFile is a temporary file whose bytes survive a crash.
type tmpFile struct {
	name string
	size int64
	tag  string
}

// write stores the bytes of r in a new temporary file.
func (s *Store) write(ctx context.Context, r io.Reader, size int64) (tmpFile, error) {
	t := tmpFile{name: path.Join(tmpDir, uuid.NewString())}
	f, err := s.root.OpenFile(t.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return tmpFile{}, full(err)
	}
	from := blob.NewExact(ctx, r, size)
	b := buffers.Get().(*[]byte) //nolint:forcetypeassert // it contains nothing else
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, from, *b)
	buffers.Put(b)
	if err == nil {
		t.size = from.Len()
		t.tag, err = s.tag(t.name)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		return t, nil
	}
	if from.Err() == nil {
		err = full(err) // of the disk, not of the reader
	}
	return tmpFile{}, errors.Join(fmt.Errorf("writing a file of the object store: %w", err), s.remove(t.name))
}

// tag gives a file a random time within the present second, which identifies it among all files of the same part.
// A backup preserves it.
func (s *Store) tag(name string) (string, error) {
	at := s.clock.Now().Truncate(time.Second).Add(rand.N(time.Second)) //nolint:gosec // not a secret
	if err := s.root.Chtimes(name, at, at); err != nil {
		return "", err
	}
	info, err := s.root.Lstat(name)
	if err != nil {
		return "", err
	}
	return tagOf(info), nil
}

func tagOf(info fs.FileInfo) string { return strconv.FormatInt(info.ModTime().UnixNano(), 36) }

// place moves a file or folder to its name, and returns when a crash cannot lose it.
func (s *Store) place(from, to string) error {
	err := s.root.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.makeDir(path.Dir(to)); err == nil {
			err = s.root.Rename(from, to)
		}
	}
	if err != nil {
		return err
	}
	return s.sync(path.Dir(to))
}

// makeDir makes a folder of objects, and the one above it where that is missing.
func (s *Store) makeDir(dir string) error {
	err := s.root.Mkdir(dir, dirMode)
	if errors.Is(err, fs.ErrNotExist) && path.Dir(dir) != objectsDir {
		if err = s.makeDir(path.Dir(dir)); err == nil {
			err = s.root.Mkdir(dir, dirMode)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return s.sync(path.Dir(dir)) // also where another process has made it a moment ago
}

// discard makes a file or folder invisible with one rename, and removes it.
func (s *Store) discard(name string) error {
	tmp := path.Join(tmpDir, uuid.NewString())
	if err := s.root.Rename(name, tmp); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return errors.Join(s.sync(path.Dir(name)), s.remove(tmp))
}

func (s *Store) remove(name string) error { return s.root.RemoveAll(name) }

// sync stores the entries of a folder.
func (s *Store) sync(dir string) error {
	f, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// names returns the entries of a folder, in no sequence.
func (s *Store) names(dir string) ([]string, error) {
	f, err := s.root.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// removeLeftovers removes what killed processes have left in the folder of temporary files.
func (s *Store) removeLeftovers() error {
	names, err := s.names(tmpDir)
	for _, name := range names {
		name = path.Join(tmpDir, name)
		info, statErr := s.root.Lstat(name)
		if statErr == nil && s.clock.Now().Sub(info.ModTime()) > leftoverAfter {
			err = errors.Join(err, s.remove(name))
		}
	}
	return err
}

// missing replaces the error of a file that does not exist.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return blob.ErrNotFound
	}
	return err
}

// full adds ErrFull to an error of a disk without space.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", blob.ErrFull, err)
	}
	return err
}
