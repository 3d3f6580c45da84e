// Vendorhash writes nix/vendor.sri: the hash that Nix will find for `go mod
// vendor` of this tree. Nix would report it after a failed build; this program computes it, so that
// `make gen` updates it.
package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"os"
	"os/exec"
	"path/filepath"
)

const target = "nix/vendor.sri"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "vendorhash:", err)
		os.Exit(1)
	}
}

func run() error {
	temp, err := os.MkdirTemp("", "vendorhash-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	vendor := filepath.Join(temp, "vendor")
	cmd := exec.Command("go", "mod", "vendor", "-o", vendor) //nolint:noctx,gosec // ends with its parent's terminal; a folder just made
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go mod vendor: %w", err)
	}
	sum, err := sri(vendor)
	if err != nil {
		return err
	}
	if err := os.WriteFile(target, []byte(sum+"\n"), 0o644); err != nil { //nolint:gosec // a source file
		return fmt.Errorf("writing the hash: %w", err)
	}
	return nil
}

// sri hashes a folder as Nix does: SHA-256 over its archive format.
func sri(path string) (string, error) {
	n := nar{sha256.New()}
	n.text("nix-archive-1")
	if err := n.node(path); err != nil {
		return "", err
	}
	return "sha256-" + base64.StdEncoding.EncodeToString(n.Sum(nil)), nil
}

// nar writes a Nix archive: names and contents in order, whether a file is
// executable, and nothing else of it.
type nar struct{ hash.Hash }

// text is a length, the bytes, and zeros up to a multiple of eight.
func (n nar) text(parts ...string) {
	for _, s := range parts {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(s)))
		n.Write(length[:])
		n.Write([]byte(s))
		n.Write(make([]byte, (8-len(s)%8)%8))
	}
}

func (n nar) node(path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("hashing: %w", err)
	}
	n.text("(", "type")
	switch {
	case st.IsDir():
		err = n.folder(path)
	case st.Mode().IsRegular():
		err = n.file(path, st.Mode())
	default:
		err = fmt.Errorf("%s is neither a file nor a folder", path)
	}
	n.text(")")
	return err
}

func (n nar) folder(path string) error {
	entries, err := os.ReadDir(path) // sorted by name, as Nix wants it
	if err != nil {
		return fmt.Errorf("hashing: %w", err)
	}
	n.text("directory")
	for _, entry := range entries {
		n.text("entry", "(", "name", entry.Name(), "node")
		if err := n.node(filepath.Join(path, entry.Name())); err != nil {
			return err
		}
		n.text(")")
	}
	return nil
}

func (n nar) file(path string, mode os.FileMode) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("hashing: %w", err)
	}
	n.text("regular")
	if mode&0o100 != 0 {
		n.text("executable", "")
	}
	n.text("contents", string(content))
	return nil
}
