package distribution

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

const archiveSuffix = ".tar.gz"

// Member is a file of an archive.
type Member struct {
	Name       string
	Content    []byte
	Executable bool
}

// ArchiveName returns the name of an archive, such as gpuaas_v1.2.3_linux_amd64.tar.gz.
func ArchiveName(version, system, architecture string) string {
	return fmt.Sprintf("gpuaas_%s_%s_%s%s", version, system, architecture, archiveSuffix)
}

// WriteArchive writes members in their sequence. Equal members and times give equal bytes: an archive has no user, no time of
// the file system, and no name of a folder of the build.
func WriteArchive(to io.Writer, members []Member, at time.Time) error {
	z, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, m := range members {
		const file, program = 0o644, 0o755
		mode := int64(file)
		if m.Executable {
			mode = program
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: m.Name, Size: int64(len(m.Content)), Mode: mode, ModTime: at.UTC().Truncate(time.Second), Format: tar.FormatUSTAR}
		if err := t.WriteHeader(header); err != nil {
			return fmt.Errorf("writing %s: %w", m.Name, err)
		}
		if _, err := t.Write(m.Content); err != nil {
			return fmt.Errorf("writing %s: %w", m.Name, err)
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// longestMember limits what one file of an archive may unpack to.
const longestMember = 512 << 20

// programsOf passes the programs of an archive to use.
func programsOf(dir fs.FS, name string, use func(program string, content io.Reader, size int64) error) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was read
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		const executable = 0o100
		switch {
		case h.Typeflag != tar.TypeReg || h.Size > longestMember:
			return fmt.Errorf("%s: %q is not a file of a version", name, h.Name)
		case h.Mode&executable == 0:
			continue
		}
		if err := use(h.Name, io.LimitReader(t, h.Size), h.Size); err != nil {
			return fmt.Errorf("%s: %s: %w", name, h.Name, err)
		}
	}
}
