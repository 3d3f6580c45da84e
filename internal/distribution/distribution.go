// Package distribution writes and verifies the folder of a version of the product: archives, a bill of materials of each,
// contracts, checksums, and a signed statement about how they were built. The verification needs the folder and a public key
// only.
package distribution

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The other files of a version.
const (
	// Sums has a line for each other file: SHA-256 in hex, two spaces, name. Program sha256sum reads it.
	Sums = "SHA256SUMS"
	// Provenance is the signed statement: an in-toto Statement v1 with the SLSA provenance v1, in a DSSE envelope.
	Provenance = "provenance.dsse.json"
)

// Digests are the SHA-256 of files in hex, by name.
type Digests map[string]string

// Encode returns the text of the file Sums.
func (d Digests) Encode() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(d)) {
		fmt.Fprintf(&b, "%s  %s\n", d[name], name)
	}
	return b.Bytes()
}

var (
	fileName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9._]{0,127}$`)
	sumLine  = regexp.MustCompile(`^([0-9a-f]{64})  (\S+)$`)
)

// parseSums reads the text of the file Sums. It accepts what Encode writes, and nothing else.
func parseSums(text []byte) (Digests, error) {
	d, before := Digests{}, ""
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		parts := sumLine.FindStringSubmatch(lines.Text())
		if parts == nil || !fileName.MatchString(parts[2]) {
			return nil, fmt.Errorf("line %d is no checksum of a file", n)
		}
		if parts[2] <= before {
			return nil, fmt.Errorf("line %d: %s is not sorted by name, or is there twice", n, parts[2])
		}
		before, d[parts[2]] = parts[2], parts[1]
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(d) == 0 || !bytes.HasSuffix(text, []byte("\n")) || bytes.Contains(text, []byte("\r")) {
		return nil, errors.New("it is empty, ends within a line, or has other ends of lines")
	}
	return d, nil
}

// digestOf returns the SHA-256 of a file.
func digestOf(dir fs.FS, name string) (string, error) {
	f, err := dir.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// DigestsOf returns the digests of all files of a folder except Sums and Provenance. A folder in it is an error.
func DigestsOf(dir fs.FS) (Digests, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, err
	}
	d := Digests{}
	for _, e := range entries {
		if !e.Type().IsRegular() || !fileName.MatchString(e.Name()) {
			return nil, fmt.Errorf("%q is not a file of a version", e.Name())
		}
		if e.Name() == Sums || e.Name() == Provenance {
			continue
		}
		if d[e.Name()], err = digestOf(dir, e.Name()); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// readBounded reads a small file.
func readBounded(dir fs.FS, name string) ([]byte, error) {
	const most = 1 << 20
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was read
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return text, err
}

// platformOf returns the system and the architecture in the name of an archive.
func platformOf(name string) (system, architecture string, isArchive bool) {
	base, found := strings.CutSuffix(name, archiveSuffix)
	parts := strings.Split(base, "_")
	if !found || len(parts) < 3 { //nolint:mnd // product, version, system and architecture
		return "", "", false
	}
	return parts[len(parts)-2], parts[len(parts)-1], true
}
