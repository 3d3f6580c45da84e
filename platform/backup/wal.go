package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/platform/backup/store"
)

const (
	purposeWAL = "wal/1"
	walFirst   = "gpuaas-wal/1"
	// maxSegment is the largest segment that initdb permits.
	maxSegment = 1 << 30
	// maxHeader limits the first line of a file of WAL.
	maxHeader = 512
)

// System reads the identifier of the database system of a data directory.
func System(data string) (uint64, error) {
	control, err := os.ReadFile(filepath.Join(data, "global", "pg_control"))
	if err != nil || len(control) < 8 {
		return 0, errs.Invalid("data", "%s is not a data directory of PostgreSQL: %v", data, err).
			Try("pass the path that PostgreSQL passes as %%p, and run the command in the data directory")
	}
	return binary.NativeEndian.Uint64(control), nil
}

// SystemOf reads the identifier of the database system of a server.
func SystemOf(ctx context.Context, q pg.Queryer) (system uint64, err error) {
	var text string
	if err := q.QueryRow(ctx, selectSystemOnly).Scan(&text); err != nil {
		return 0, fmt.Errorf("reading the database system: %w", err)
	}
	return strconv.ParseUint(text, 10, 64)
}

// dataOf returns the data directory of a file in pg_wal.
func dataOf(file string) string { return filepath.Dir(filepath.Dir(filepath.Clean(file))) }

// walHeader is the first line of a stored file of WAL. It is signed, so that a repeated push can be compared with it
// without the identity.
type walHeader struct {
	system uint64
	name   string
	size   int64
	sha256 string
}

func (h walHeader) message() []byte {
	return fmt.Appendf(nil, "%s %d %s %d %s", walFirst, h.system, h.name, h.size, h.sha256)
}

func walName(system uint64, name string) string {
	return path.Join(walDir, strconv.FormatUint(system, 10), name)
}

// Push archives one file of WAL for archive_command. It returns nil when the file is durable in the store. The same file
// again is no error; another content under the same name is.
func (s *Service) Push(ctx context.Context, file string, server seal.Server) error {
	system, err := System(dataOf(file))
	if err != nil {
		return err
	}
	return s.push(ctx, file, system, server)
}

func (s *Service) push(ctx context.Context, file string, system uint64, server seal.Server) error {
	name := filepath.Base(file)
	if !lsn.IsFile(name) {
		return errs.Invalid("file", "%q is not a file of WAL", name).Try("archive_command = 'gpuaas backup wal-push %%p'")
	}
	content, err := readBounded(file)
	if err != nil {
		return err
	}
	if err := checkSegment(name, content, system); err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	h := walHeader{system: system, name: name, size: int64(len(content)), sha256: hex.EncodeToString(sum[:])}
	if limited, ok := s.Store.(store.Limited); ok && int64(len(content)) > limited.MaxExclusive() {
		return errs.Invalid(name, "has %d bytes, and the target can reject a second writer only up to %d", len(content), limited.MaxExclusive()).
			Try("use a folder as the target, or a cluster of initdb --wal-segsize=16")
	}
	// Before the comparison: Put makes also a file durable that a killed push has left.
	err = s.Store.Put(ctx, walName(system, name), func(w io.Writer) error { return writeWAL(w, h, content, server) })
	if errors.Is(err, store.ErrExists) {
		return s.compare(ctx, h, server.Verifier())
	}
	return full(err)
}

func readBounded(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, errs.Invalid("file", "cannot be read: %v", err)
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxSegment+1))
	if err == nil && len(content) > maxSegment {
		return nil, errs.Invalid("file", "%s has more than %d bytes", file, maxSegment)
	}
	return content, err
}

// Positions in the first page of a segment (XLogLongPageHeaderData).
const (
	systemAt, systemEnd = 24, 32
	sizeAt, sizeEnd     = 32, 36
)

// checkSegment rejects a segment that was cut or is of another database system.
func checkSegment(name string, content []byte, system uint64) error {
	if !lsn.IsSegment(name) {
		return nil
	}
	if len(content) < sizeEnd || int(binary.NativeEndian.Uint32(content[sizeAt:sizeEnd])) != len(content) {
		return errs.Invalid(name, "is not a whole segment of WAL: it has %d bytes", len(content))
	}
	if found := binary.NativeEndian.Uint64(content[systemAt:systemEnd]); found != system {
		return errs.New(errs.Conflict, "segment %s is of the database system %d, and not of %d", name, found, system).
			Try("use the WAL and the backup of one cluster")
	}
	return nil
}

// compare rejects a file of the store with another content.
func (s *Service) compare(ctx context.Context, h walHeader, v seal.Verifier) error {
	f, err := s.Store.Get(ctx, walName(h.system, h.name))
	if err != nil {
		return fmt.Errorf("reading %s of the target: %w", h.name, err)
	}
	defer func() { _ = f.Close() }()
	stored, err := readHeader(bufio.NewReader(f), h.system, h.name, v)
	if err != nil {
		return err
	}
	if stored != h {
		return errs.New(errs.Conflict, "the target has another content for %s: two servers with the same history write WAL", h.name).
			Try("stop the server that must not write, or give the other one a new timeline by a restore")
	}
	return nil
}

func writeWAL(w io.Writer, h walHeader, content []byte, server seal.Server) error {
	message := h.message()
	if _, err := fmt.Fprintf(w, "%s %s\n", message, base64.StdEncoding.EncodeToString(server.Sign(purposeWAL, message))); err != nil {
		return err
	}
	sealed, err := server.Encrypt(w)
	if err != nil {
		return err
	}
	_, err = sealed.Write(content)
	return errors.Join(err, sealed.Close())
}

// readHeader reads and verifies the first line of a stored file.
func readHeader(r *bufio.Reader, system uint64, name string, v seal.Verifier) (h walHeader, err error) {
	altered := errs.New(errs.SignatureInvalid, "%s of the target is altered, cut, or signed by another key", name).
		Try("use another copy of the target")
	line, err := r.Peek(maxHeader)
	if err != nil && !errors.Is(err, io.EOF) {
		return h, fmt.Errorf("reading %s of the target: %w", name, err)
	}
	line, _, ended := bytes.Cut(line, []byte("\n"))
	fields := strings.Split(string(line), " ")
	if !ended || len(fields) != 6 {
		return h, altered
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(fields[5])
	size, errSize := strconv.ParseInt(fields[3], 10, 64)
	h = walHeader{system: system, name: name, size: size, sha256: fields[4]}
	// The message has the expected system and name, so that one file cannot replace another.
	if err != nil || errSize != nil || size < 0 || size > maxSegment || !v.Verify(purposeWAL, h.message(), signature) {
		return h, altered
	}
	_, err = r.Discard(len(line) + 1)
	return h, err
}

// Fetch returns a file of WAL.
func (s *Service) Fetch(ctx context.Context, system uint64, name string, operator seal.Operator) ([]byte, error) {
	if !lsn.IsFile(name) {
		return nil, errs.Invalid("file", "%q is not a file of WAL", name).Try("restore_command = 'gpuaas backup wal-fetch %%f %%p'")
	}
	f, err := s.Store.Get(ctx, walName(system, name))
	if errors.Is(err, store.ErrNotFound) {
		return nil, errs.New(errs.NotFound, "the target has no WAL %s of the database system %d", name, system)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of the target: %w", name, err)
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReader(f)
	h, err := readHeader(r, system, name, operator.Verifier)
	if err != nil {
		return nil, err
	}
	var content []byte
	if err := operator.Decrypt(r, func(plain io.Reader) error {
		content, err = io.ReadAll(io.LimitReader(plain, h.size+1))
		return err
	}); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != h.sha256 {
		return nil, errs.New(errs.SignatureInvalid, "the content of %s is not that which the server has signed", name)
	}
	return content, checkSegment(name, content, system)
}
