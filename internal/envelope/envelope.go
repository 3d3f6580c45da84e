// Package envelope encrypts secrets that are stored, in one format: a version, the id of the key, and a
// ciphertext that is bound to both and to the place where it is stored.
//
//	0x01 · length of the key id · key id · nonce · ciphertext · tag
package envelope

import (
	"encoding/binary"
	"fmt"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// version is that of the format. An envelope of another version is not opened.
const version = 1

// maxID limits the id of a key.
const maxID = 100

// Place names the table, column and row of an envelope. It opens nowhere else, so that a secret cannot be
// moved into another row.
type Place struct{ Table, Column, Row string }

// String names the place in messages and audit rows.
func (p Place) String() string { return p.Table + "." + p.Column + "/" + p.Row }

// Reason is the cause of an envelope that does not open.
type Reason string

// The reasons, which are also labels of the metric.
const (
	ReasonVersion Reason = "version" // another version, or no envelope
	ReasonKey     Reason = "key"     // no such key
	ReasonContent Reason = "content" // changed, or of another place
)

// Header returns the first bytes of each envelope of a key.
func Header(id string) []byte {
	return append([]byte{version, byte(len(id))}, id...) //nolint:gosec // an id has a few characters
}

// Split returns the key id and the ciphertext of an envelope.
func Split(sealed []byte) (id string, ciphertext []byte, err error) {
	if len(sealed) < 2 || sealed[0] != version || sealed[1] == 0 || int(sealed[1]) > len(sealed)-2 {
		return "", nil, failure(ReasonVersion, "is no envelope of version %d", version)
	}
	n := 2 + int(sealed[1])
	return string(sealed[2:n]), sealed[n:], nil
}

// Bind returns the associated data of an envelope: its header and its place, each part with its length.
func Bind(id string, at Place) []byte {
	text := Header(id)
	for _, part := range []string{at.Table, at.Column, at.Row} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(part))) //nolint:gosec // names and ids
		text = append(text, part...)
	}
	return text
}

// failure returns the error of an envelope that does not open.
func failure(why Reason, format string, args ...any) *errs.Error {
	return errs.New(errs.DecryptionFailed, "a stored secret "+format, args...).With("reason", string(why)).
		Try("an operator finds it in the audit log and reads docs/guides/rotate-ca-and-keys.md")
}

// ReasonOf returns why an envelope did not open, or "".
func ReasonOf(err error) Reason {
	if errs.CodeOf(err) != errs.DecryptionFailed {
		return ""
	}
	reason, _ := errs.DetailsOf(err)["reason"].(string)
	return Reason(reason)
}

// checkID rejects an id that does not fit a header.
func checkID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("a key id has 1 to %d bytes, not %d", maxID, len(id))
	}
	return nil
}
