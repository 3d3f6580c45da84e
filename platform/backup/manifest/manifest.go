// Package manifest is the description of one backup. The server signs it and writes it last: a backup without a
// manifest does not exist.
package manifest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// Version is the only version that this program reads and writes.
const Version = 1

// Manifest describes a backup. All times are those of the database.
type Manifest struct {
	Version     int       `json:"version"`
	ID          string    `json:"id"`
	Environment string    `json:"environment"`
	StartedAt   time.Time `json:"started_at"`
	EndedAt     time.Time `json:"ended_at"`

	System       uint64 `json:"system_identifier,string"`
	PostgreSQL   int    `json:"postgresql"` // major version
	Schema       int64  `json:"schema_version"`
	Database     string `json:"database"`
	Superuser    string `json:"superuser"`
	SegmentBytes uint64 `json:"segment_bytes"`

	Timeline uint32  `json:"timeline"`
	Start    lsn.LSN `json:"start_lsn"`
	End      lsn.LSN `json:"end_lsn"`
	// Segments are the files of WAL from the start of the backup up to the point of Checks.
	Segments []string `json:"segments"`

	Files  []File `json:"files"`
	Checks Checks `json:"checks"`
	// Streams are the last sequences of the streams of NATS.
	Streams map[string]uint64 `json:"streams,omitempty"`
}

// Bytes returns the size of the encrypted files.
func (m Manifest) Bytes() (n int64) {
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

// File is one encrypted file of the backup.
type File struct {
	Name         string `json:"name"`
	Bytes        int64  `json:"bytes"`
	SHA256       string `json:"sha256"`
	PlainBytes   int64  `json:"plain_bytes"`
	PlainSHA256  string `json:"plain_sha256"`
	PostgresData bool   `json:"postgres_data,omitempty"`
}

// Checks describe the content of a restore to At.
type Checks struct {
	At lsn.LSN `json:"at_lsn"`
	// Rows are the numbers of rows of each table exactly at At. It is empty if the database had no moment without a
	// writing transaction.
	Rows map[string]int64 `json:"rows,omitempty"`
	// Ledger and Audit are heads that were sealed before At.
	Ledger []ledger.Chain `json:"ledger"`
	Audit  []audit.Chain  `json:"audit"`
}

const (
	purpose = "manifest/1"
	first   = "gpuaas-backup/1 "
	// maxBytes limits a manifest. Each tenant needs about 600 bytes.
	maxBytes = 256 << 20
)

// Encode returns the signed manifest: a line with the signature, and the JSON that it covers.
func Encode(m Manifest, server seal.Server) ([]byte, error) {
	m.Version = Version
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding a manifest: %w", err)
	}
	signature := base64.StdEncoding.EncodeToString(server.Sign(purpose, text))
	return append([]byte(first+signature+"\n"), text...), nil
}

// Decode verifies and reads the manifest of the backup id.
func Decode(id string, r io.Reader, v seal.Verifier) (m Manifest, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return m, fmt.Errorf("reading the manifest of %s: %w", id, err)
	}
	line, body, _ := bytes.Cut(text, []byte("\n"))
	encoded, ours := strings.CutPrefix(string(line), first)
	signature, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !ours || err != nil || len(text) > maxBytes || !v.Verify(purpose, body, signature) {
		return m, errs.New(errs.SignatureInvalid, "the manifest of %s is altered, cut, or signed by another key", id).
			Try("use another copy of the backup, or the operator's key file that belongs to the key file of the server")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, errs.Invalid(id, "the manifest is of another version of this program, or not valid: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return m, errs.Invalid(id, "the manifest has more than one document")
	}
	return m, m.check(id)
}

var (
	isName   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)
	isDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// CheckID rejects what cannot be the name of a backup, before it becomes a part of a path.
func CheckID(id string) error {
	if !isName.MatchString(id) {
		return errs.Invalid("id", "%q is not the id of a backup", id).Try("gpuaas backup list")
	}
	return nil
}

// check validates also a signed manifest: its names become names of files.
func (m Manifest) check(id string) error {
	switch {
	case m.Version != Version:
		return errs.Invalid(id, "the manifest has version %d, and this program reads version %d", m.Version, Version)
	case m.ID != id:
		return errs.New(errs.SignatureInvalid, "the manifest of %s is that of %s", id, m.ID)
	case m.System == 0, m.Timeline == 0, m.PostgreSQL == 0, m.SegmentBytes == 0, m.Start == 0, m.End < m.Start, m.Checks.At < m.End, len(m.Files) == 0:
		return errs.Invalid(id, "the manifest lacks a number, or its positions are in the wrong sequence")
	}
	names := map[string]bool{}
	for _, f := range m.Files {
		if !isName.MatchString(f.Name) || path.Base(f.Name) != f.Name || names[f.Name] {
			return errs.Invalid(id, "the manifest has the file name %q", f.Name)
		}
		if f.Bytes < 0 || f.PlainBytes < 0 || !isDigest.MatchString(f.SHA256) || !isDigest.MatchString(f.PlainSHA256) {
			return errs.Invalid(id, "the manifest has a size or a digest of %s that is not possible", f.Name)
		}
		names[f.Name] = true
	}
	for _, s := range m.Segments {
		if !lsn.IsSegment(s) {
			return errs.Invalid(id, "the manifest has the segment %q", s)
		}
	}
	return nil
}
