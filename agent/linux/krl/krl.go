// Package krl writes and reads lists of revoked certificates for sshd.
package krl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A key revocation list in the format of OpenSSH (PROTOCOL.krl). This package writes and reads one kind
// only: serials of certificates of any authority.
const (
	krlMagic   = "SSHKRL\n\x00"
	krlFormat  = 1
	krlCerts   = 1    // section
	krlSerials = 0x20 // subsection
)

// Format returns the list that revokes certificates with these serials. It contains no date, so
// that the same serials give the same file.
func Format(serials []uint64) []byte {
	serials = slices.Compact(slices.Sorted(slices.Values(serials)))
	b := []byte(krlMagic)
	b = binary.BigEndian.AppendUint32(b, krlFormat)
	for range 3 { // version, date, flags
		b = binary.BigEndian.AppendUint64(b, 0)
	}
	b = appendString(b, nil) // reserved
	b = appendString(b, []byte("gpuaas"))
	if len(serials) == 0 {
		return b
	}
	var list []byte
	for _, serial := range serials {
		list = binary.BigEndian.AppendUint64(list, serial)
	}
	section := appendString(nil, nil)     // of any authority
	section = appendString(section, nil)  // reserved
	section = append(section, krlSerials) // and then the subsection
	section = appendString(section, list)
	return appendString(append(b, krlCerts), section)
}

func appendString(b, s []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...) //nolint:gosec // far shorter than 4 GiB
}

var errForeignList = errors.New("not a list of the platform")

// Parse reads the serials of a list that Format has made.
func Parse(list []byte) (serials []uint64, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	empty := Format(nil)
	rest, ok := bytes.CutPrefix(list, empty)
	if !ok {
		return nil, errForeignList
	}
	const head = 1 + 4 + 4 + 4 + 1 + 4 // of section and subsection
	for i := head; i+8 <= len(rest); i += 8 {
		serials = append(serials, binary.BigEndian.Uint64(rest[i:]))
	}
	if !bytes.Equal(Format(serials), list) {
		return nil, fmt.Errorf("%w: it contains more than serial numbers", errForeignList)
	}
	return serials, nil
}
