package pack

import (
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
)

// Objects is the part of a Git repository that the reader needs. go-git's stores implement it, and
// so does Packs.
type Objects interface {
	EncodedObject(kind plumbing.ObjectType, hash plumbing.Hash) (plumbing.EncodedObject, error)
	EncodedObjectSize(hash plumbing.Hash) (int64, error)
}

// ReadObject reads one object whole, if it is no larger than most, and makes sure
// that it is the one its name promises: a disk that lies must not declare a fleet.
func ReadObject(from Objects, kind plumbing.ObjectType, hash plumbing.Hash, most int64) ([]byte, error) {
	size, err := from.EncodedObjectSize(hash)
	if err != nil {
		return nil, fmt.Errorf("reading size of %s %s: %w", kind, hash, err)
	}
	if size > most {
		return nil, TooLargeError{kind, hash, size, most}
	}
	o, err := from.EncodedObject(kind, hash)
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind, hash, err)
	}
	r, err := o.Reader()
	if err != nil {
		return nil, fmt.Errorf("opening %s %s: %w", kind, hash, err)
	}
	defer r.Close() //nolint:errcheck // read only
	body := make([]byte, 0, size)
	// The header has promised a size; a pack that lies ends here.
	body, err = appendAll(body, io.LimitReader(r, size+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind, hash, err)
	}
	if got := plumbing.ComputeHash(kind, body); got != hash {
		return nil, fmt.Errorf("%s %s contains the bytes of %s", kind, hash, got)
	}
	return body, nil
}

func appendAll(to []byte, r io.Reader) ([]byte, error) {
	for {
		if len(to) == cap(to) {
			to = append(to, 0)[:len(to)]
		}
		n, err := r.Read(to[len(to):cap(to)])
		to = to[:len(to)+n]
		if err == io.EOF {
			return to, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// TooLargeError rejects an object by its size before it is read.
type TooLargeError struct {
	Kind       plumbing.ObjectType
	hash       plumbing.Hash
	size, most int64
}

func (e TooLargeError) Error() string {
	return fmt.Sprintf("%s %s has %d bytes, at most %d are read", e.Kind, e.hash, e.size, e.most)
}
