package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
)

// counted counts and hashes what passes.
type counted struct {
	w   io.Writer
	sum hash.Hash
	n   int64
}

func count(w io.Writer) *counted { return &counted{w: w, sum: sha256.New()} }

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.sum.Write(p[:n])
	c.n += int64(n)
	return n, err
}

func (c *counted) digest() string { return hex.EncodeToString(c.sum.Sum(nil)) }

// walRange is the part of the WAL that the base backup needs.
type walRange struct {
	Timeline uint32
	Start    lsn.LSN `json:"Start-LSN"`
	End      lsn.LSN `json:"End-LSN"`
}

// base streams the base backup to the store.
func (s *Service) base(ctx context.Context, id string, c CreateConfig, bin pgcluster.Binaries) (f manifest.File, wal walRange, err error) {
	f = manifest.File{Name: baseFile, PostgresData: true}
	err = s.Store.Put(ctx, fileOf(id, f.Name), func(w io.Writer) error {
		cipher := count(w)
		sealed, err := c.Server.Encrypt(cipher)
		if err != nil {
			return err
		}
		plain := count(sealed)
		if wal, err = stream(ctx, plain, c.URL, id, bin); err != nil {
			return errors.Join(err, sealed.Close())
		}
		if err := sealed.Close(); err != nil {
			return err
		}
		f.Bytes, f.SHA256, f.PlainBytes, f.PlainSHA256 = cipher.n, cipher.digest(), plain.n, plain.digest()
		return nil
	})
	return f, wal, err
}

// stream runs pg_basebackup, and reads the range of WAL in the archive that it writes.
func stream(ctx context.Context, w io.Writer, database, id string, bin pgcluster.Binaries) (walRange, error) {
	address, password, err := withoutPassword(database)
	if err != nil {
		return walRange{}, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin.Dir, "pg_basebackup"), "--pgdata=-", "--format=tar", "--wal-method=none", //nolint:gosec // a binary of PostgreSQL
		"--manifest-checksums=SHA256", "--checkpoint=fast", "--no-password", "--label=gpuaas "+id, "--dbname="+address)
	cmd.Env = environment(password)
	var said bytes.Buffer
	cmd.Stderr = &said
	r, pipe := io.Pipe()
	cmd.Stdout = io.MultiWriter(w, pipe)
	found := make(chan rangeFound, 1)
	go func() { found <- scan(r) }()
	err = cmd.Run()
	_ = pipe.CloseWithError(err)
	scanned := <-found
	if err != nil {
		return walRange{}, errs.New(errs.Unavailable, "pg_basebackup has failed: %s", bytes.TrimSpace(said.Bytes())).
			Try("the role of DATABASE_URL needs REPLICATION, and pg_hba.conf a line for replication").Because(err)
	}
	return scanned.wal, scanned.err
}

// environment is that of a tool of PostgreSQL. Without a password in the URL, the tool reads PGPASSWORD of ours or ~/.pgpass.
func environment(password string) []string {
	env := append(os.Environ(), "LC_ALL=C")
	if password != "" {
		env = append(env, "PGPASSWORD="+password)
	}
	return env
}

// withoutPassword removes the password from a URL, because every user of the computer can read the arguments of a process.
// A password in the query replaces that of the user, as in libpq.
func withoutPassword(database string) (address, password string, err error) {
	u, err := url.Parse(database)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", "", errs.Invalid("DATABASE_URL", "is not a URL such as postgres://user@server/database")
	}
	if u.User != nil {
		password, _ = u.User.Password()
		u.User = url.User(u.User.Username())
	}
	var query []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(part, "=")
		if name, err = url.PathUnescape(name); err == nil { // libpq decodes no + as a space
			value, err = url.PathUnescape(value)
		}
		switch {
		case err != nil:
			return "", "", errs.Invalid("DATABASE_URL", "has a parameter that cannot be decoded")
		case name == "sslpassword":
			return "", "", errs.Invalid("DATABASE_URL", "has sslpassword, which the tools of PostgreSQL read only from their arguments").
				Try("use a client key without a password, in a file that only its user can read")
		case name == "password":
			password = value
		default:
			query = append(query, part)
		}
	}
	u.RawQuery = strings.Join(query, "&")
	return u.String(), password, nil
}

type rangeFound struct {
	wal walRange
	err error
}

// maxBaseManifest limits the memory for backup_manifest, which has about 150 bytes for each file.
const maxBaseManifest = 256 << 20

// scan finds backup_manifest in the archive. It reads up to the end, because the writer waits for it.
func scan(r io.Reader) (f rangeFound) {
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if err != nil {
			if f.wal.Timeline == 0 && f.err == nil {
				f.err = fmt.Errorf("the base backup has no backup_manifest with a range of WAL: %w", err)
			}
			break
		}
		if h.Name == "backup_manifest" {
			f.wal, f.err = readRange(io.LimitReader(archive, maxBaseManifest))
		}
	}
	_, _ = io.Copy(io.Discard, r)
	return f
}

func readRange(r io.Reader) (walRange, error) {
	var m struct {
		Ranges []walRange `json:"WAL-Ranges"`
	}
	if err := json.NewDecoder(r).Decode(&m); err != nil {
		return walRange{}, fmt.Errorf("reading backup_manifest: %w", err)
	}
	if len(m.Ranges) != 1 {
		return walRange{}, errs.New(errs.Conflict, "the timeline has changed during the backup").Try("repeat the command")
	}
	return m.Ranges[0], nil
}
