package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// Begin makes the folder of an upload. The handle is a version 7, which contains the time.
func (s *Store) Begin(_ context.Context, id uuid.UUID) (blob.Upload, error) {
	handle, err := uuid.NewV7()
	if err != nil {
		return blob.Upload{}, err
	}
	u := blob.Upload{ID: id, Handle: handle.String()}
	dir := path.Join(uploadsDir, folderName(u))
	err = s.root.Mkdir(dir, dirMode)
	if err == nil {
		err = s.root.WriteFile(path.Join(dir, lockName), nil, fileMode)
	}
	if err = errors.Join(err, s.sync(dir), s.sync(uploadsDir)); err != nil {
		return blob.Upload{}, errors.Join(full(err), s.remove(dir))
	}
	return u, nil
}

// lockName is the file that PutPart locks shared, and Complete exclusively. A rename into a folder may begin before the
// folder is moved and end after it, so that the move alone would not end the replacement of parts.
const lockName = "lock"

// lock locks an upload that is not closed. The lock ends with its file.
func (s *Store) lock(dir string, how int) (*os.File, error) {
	f, err := s.root.OpenFile(path.Join(dir, lockName), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking an upload: %w", err), f.Close())
	}
	return f, nil
}

func folderName(u blob.Upload) string { return u.ID.String() + "_" + u.Handle }

func partName(number int) string { return fmt.Sprintf("%05d", number) }

// checked returns ErrNotFound for a handle that Begin has not made. Its text becomes a part of a path.
func checked(u blob.Upload) error {
	if handle, err := uuid.Parse(u.Handle); err != nil || handle.String() != u.Handle {
		return blob.ErrNotFound
	}
	return nil
}

// PutPart replaces the file of a part. Complete waits for it, and moves the folder away, so that no part is replaced after
// Complete has compared the parts.
func (s *Store) PutPart(ctx context.Context, u blob.Upload, number int, r io.Reader, size int64) (blob.Part, error) {
	if err := errors.Join(checked(u), blob.CheckParts([]blob.Part{{Number: number}})); err != nil {
		return blob.Part{}, err
	}
	dir := path.Join(uploadsDir, folderName(u))
	if _, err := s.root.Lstat(dir); err != nil {
		return blob.Part{}, missing(err)
	}
	tmp, err := s.write(ctx, r, size)
	if err != nil {
		return blob.Part{}, err
	}
	lock, err := s.lock(dir, syscall.LOCK_SH)
	if err == nil {
		defer lock.Close() //nolint:errcheck // it is empty
		err = s.root.Rename(tmp.name, path.Join(dir, partName(number)))
	}
	if err == nil {
		err = s.sync(dir)
	}
	if err != nil {
		return blob.Part{}, errors.Join(missing(full(err)), s.remove(tmp.name))
	}
	return blob.Part{Number: number, Size: tmp.size, Tag: tmp.tag}, nil
}

// Parts reads the folder of an upload, also after Complete has closed it.
func (s *Store) Parts(_ context.Context, u blob.Upload) ([]blob.Part, error) {
	if err := checked(u); err != nil {
		return nil, err
	}
	parts, err := s.parts(path.Join(uploadsDir, folderName(u)))
	if errors.Is(err, fs.ErrNotExist) {
		parts, err = s.parts(path.Join(joiningDir, folderName(u)))
	}
	return parts, missing(err)
}

func (s *Store) parts(dir string) ([]blob.Part, error) {
	names, err := s.names(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	parts := []blob.Part{}
	for _, name := range names {
		number, err := strconv.Atoi(name)
		if err != nil {
			continue // the list of parts
		}
		info, err := s.root.Lstat(path.Join(dir, name))
		if err != nil {
			return nil, err
		}
		parts = append(parts, blob.Part{Number: number, Size: info.Size(), Tag: tagOf(info)})
	}
	return parts, nil
}

// Complete copies no byte. It closes the upload, writes the list of parts into the folder, and moves the folder to the
// name of the object. A repetition continues after a crash at any point.
func (s *Store) Complete(ctx context.Context, u blob.Upload, parts []blob.Part) error {
	if err := checked(u); err != nil {
		return err
	}
	open, closed, object := path.Join(uploadsDir, folderName(u)), path.Join(joiningDir, folderName(u)), objectPath(u.ID)
	if list, err := s.readList(object); err == nil && list.handle == u.Handle {
		return errors.Join(list.compare(parts), s.removeUnlisted(object, list))
	}
	if err := blob.CheckParts(parts); err != nil {
		return err
	}
	if err := s.closeUpload(open, closed, parts); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return full(err)
	}
	list := partList{handle: u.Handle, parts: parts}
	if err := s.join(ctx, closed, object, list); err != nil {
		return s.reopen(u, parts, err)
	}
	return s.removeUnlisted(object, list)
}

// closeUpload moves the folder of an upload whose parts are those listed.
func (s *Store) closeUpload(open, closed string, parts []blob.Part) error {
	lock, err := s.lock(open, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // it is empty
	if err := s.stored(open, parts); err != nil {
		return err
	}
	return s.root.Rename(open, closed)
}

// join makes an object of a closed upload. Another call may have closed it, for other parts.
func (s *Store) join(ctx context.Context, closed, object string, list partList) error {
	if err := s.stored(closed, list.parts); err != nil {
		return err
	}
	if err := s.writeList(ctx, closed, list); err != nil {
		return err
	}
	return s.place(closed, object)
}

// reopen handles the failure of join. Another call may have completed the upload; otherwise other parts can be put.
func (s *Store) reopen(u blob.Upload, parts []blob.Part, failure error) error {
	if list, err := s.readList(objectPath(u.ID)); err == nil && list.handle == u.Handle {
		return list.compare(parts)
	}
	err := s.root.Rename(path.Join(joiningDir, folderName(u)), path.Join(uploadsDir, folderName(u)))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(missing(full(failure)), err)
}

// stored returns ErrPart unless the folder contains the parts.
func (s *Store) stored(dir string, parts []blob.Part) error {
	if _, err := s.root.Lstat(dir); err != nil {
		return err
	}
	for _, p := range parts {
		info, err := s.root.Lstat(path.Join(dir, partName(p.Number)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err != nil || info.Size() != p.Size || tagOf(info) != p.Tag {
			return fmt.Errorf("part %d: %w", p.Number, blob.ErrPart)
		}
	}
	return nil
}

// removeUnlisted removes parts that Complete has not named.
func (s *Store) removeUnlisted(object string, list partList) error {
	names, err := s.names(object)
	for _, name := range names {
		number, none := strconv.Atoi(name)
		_, listed := slices.BinarySearchFunc(list.parts, number, func(p blob.Part, n int) int { return p.Number - n })
		if none == nil && !listed {
			err = errors.Join(err, s.remove(path.Join(object, name)))
		}
	}
	return err
}

// Abort removes the folder of an upload.
func (s *Store) Abort(_ context.Context, u blob.Upload) error {
	if checked(u) != nil {
		return nil //nolint:nilerr // Begin has not made it
	}
	return errors.Join(s.discard(path.Join(uploadsDir, folderName(u))), s.discard(path.Join(joiningDir, folderName(u))))
}

// Uploads reads the time of each upload from its handle. It also removes temporary files that a process has left.
func (s *Store) Uploads(ctx context.Context, before time.Time) iter.Seq2[blob.Upload, error] {
	return func(yield func(blob.Upload, error) bool) {
		open, err := s.names(uploadsDir)
		closed, closedErr := s.names(joiningDir)
		if err := errors.Join(err, closedErr, s.removeLeftovers()); err != nil {
			yield(blob.Upload{}, err)
			return
		}
		for _, name := range append(open, closed...) {
			u, began, ok := parseUpload(name)
			if err := ctx.Err(); ok && began.Before(before) && !yield(u, err) || err != nil {
				return
			}
		}
	}
}

func parseUpload(name string) (blob.Upload, time.Time, bool) {
	id, handle, _ := strings.Cut(name, "_")
	u := blob.Upload{Handle: handle}
	var err error
	if u.ID, err = uuid.Parse(id); err != nil || checked(u) != nil {
		return blob.Upload{}, time.Time{}, false
	}
	seconds, nanoseconds := uuid.MustParse(handle).Time().UnixTime()
	return u, time.Unix(seconds, nanoseconds), true
}
