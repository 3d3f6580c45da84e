package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Bundle is a bundle that was read.
type Bundle struct {
	Manifest

	Content map[string][]byte // of each file
}

// Open reads an archive. It accepts exactly what Build writes: the manifest first, and then its files in its sequence.
func Open(archive []byte) (b Bundle, err error) {
	if len(archive) > MostBytes {
		return b, errs.Invalid("bundle", "has %d bytes, and the limit is %d", len(archive), MostBytes)
	}
	from := bytes.NewReader(archive)
	z, err := gzip.NewReader(from)
	if err != nil {
		return b, errs.Invalid("bundle", "is no archive of the format tar.gz")
	}
	z.Multistream(false)
	t := tar.NewReader(z)
	head, err := next(t, manifestFile)
	if err != nil {
		return b, err
	}
	d := json.NewDecoder(bytes.NewReader(head))
	d.DisallowUnknownFields()
	if err := d.Decode(&b.Manifest); err != nil || b.Format != format {
		return b, errs.Invalid("bundle", "has a manifest that this version does not read")
	}
	b.Content = map[string][]byte{}
	for _, f := range b.Files {
		text, err := next(t, f.Name)
		if err != nil {
			return b, err
		}
		if digest := sha256.Sum256(text); hex.EncodeToString(digest[:]) != f.SHA256 {
			return b, errs.Invalid("bundle", "the file %q is not the one of the manifest", f.Name)
		}
		if _, twice := b.Content[f.Name]; twice {
			return b, errs.Invalid("bundle", "the manifest lists %q twice", f.Name)
		}
		b.Content[f.Name] = text
	}
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return b, errs.Invalid("bundle", "has more files than its manifest lists")
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(z, 1)); err != nil || n > 0 || from.Len() > 0 { // gzip's sum is at its end
		return b, errs.Invalid("bundle", "is cut off, or has something behind its end")
	}
	return b, nil
}

// next reads the next file, which must have the name.
func next(t *tar.Reader, name string) ([]byte, error) {
	h, err := t.Next()
	if err != nil || h.Name != name || h.Typeflag != tar.TypeReg {
		return nil, errs.Invalid("bundle", "lacks the file %q at its place", name)
	}
	text, err := io.ReadAll(io.LimitReader(t, sectionBytes+1))
	if err != nil || len(text) > sectionBytes {
		return nil, errs.Invalid("bundle", "the file %q is cut off or longer than %d bytes", name, sectionBytes)
	}
	return text, nil
}
