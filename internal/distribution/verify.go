package distribution

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Verified describes a folder that Verify has accepted.
type Verified struct {
	Version  string   `json:"version"`
	Revision string   `json:"revision"`
	Builder  string   `json:"builder"`
	Go       string   `json:"go"` // version of the compiler
	KeyID    string   `json:"key_id"`
	Files    []string `json:"files"`
}

// Verify compares a folder with its checksums, these with the signed statement, and the programs in the archives with their
// bills of materials. The error names every file that differs.
func Verify(dir fs.FS, key ed25519.PublicKey) (v Verified, err error) {
	observed, err := DigestsOf(dir)
	if err != nil {
		return v, err
	}
	text, err := readBounded(dir, Sums)
	if err != nil {
		return v, err
	}
	listed, err := parseSums(text)
	if err != nil {
		return v, fmt.Errorf("%s: %w", Sums, err)
	}
	if err := differences(observed, listed, Sums); err != nil {
		return v, err
	}
	if text, err = readBounded(dir, Provenance); err != nil {
		return v, err
	}
	s, err := open(text, key)
	if err != nil {
		return v, fmt.Errorf("%s: %w", Provenance, err)
	}
	stated := Digests{}
	for _, one := range s.Subject {
		if _, twice := stated[one.Name]; twice || len(one.Digest) != 1 {
			return v, fmt.Errorf("%s: %s is there twice, or has not one digest", Provenance, one.Name)
		}
		stated[one.Name] = one.Digest["sha256"]
	}
	if err := differences(observed, stated, Provenance); err != nil {
		return v, err
	}
	v = Verified{
		Version: s.Predicate.BuildDefinition.ExternalParameters["version"], Revision: s.Predicate.BuildDefinition.ExternalParameters["revision"],
		Builder: s.Predicate.RunDetails.Builder.ID, KeyID: KeyID(key), Files: slices.Sorted(maps.Keys(observed)),
		Go: s.Predicate.BuildDefinition.InternalParameters["go"],
	}
	return v, archives(dir, v)
}

// differences lists files that are missing, unknown or changed.
func differences(observed, listed Digests, in string) error {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		switch digest, found := observed[name]; {
		case !found:
			all = append(all, fmt.Sprintf("%s is missing: %s lists it", name, in))
		case digest != listed[name]:
			all = append(all, fmt.Sprintf("%s is not the file that %s lists", name, in))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(observed)) {
		if _, found := listed[name]; !found {
			all = append(all, fmt.Sprintf("%s is not in %s", name, in))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

// archives compares the programs of each archive with its bill of materials and with the stated commit.
func archives(dir fs.FS, v Verified) error {
	var all []error
	for _, name := range v.Files {
		system, architecture, isArchive := platformOf(name)
		if !isArchive {
			continue
		}
		if name != ArchiveName(v.Version, system, architecture) {
			return fmt.Errorf("%s is not an archive of %s", name, v.Version)
		}
		components, err := componentsOf(dir, SBOMName(name))
		if err != nil {
			return err
		}
		all = append(all, programsOf(dir, name, func(_ string, content io.Reader, _ int64) error {
			program, err := io.ReadAll(content)
			if err != nil {
				return err
			}
			return compareProgram(program, components, v)
		}))
	}
	return errors.Join(all...)
}

func compareProgram(program []byte, components map[string]string, v Verified) error {
	modules, info, err := ModulesOf(bytes.NewReader(program))
	if err != nil {
		return err
	}
	for _, m := range modules {
		if integrity, found := components[m.purl()]; !found || integrity != m.Integrity {
			return fmt.Errorf("it contains %s %s, which its bill of materials does not list", m.Name, m.Version)
		}
	}
	if info.GoVersion != v.Go {
		return fmt.Errorf("it was built by %s, not by %s", info.GoVersion, v.Go)
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			changed = s.Value
		}
	}
	if commit != v.Revision || changed == "true" {
		return fmt.Errorf("it was built from the commit %q, changed: %q, and not from %q", commit, changed, v.Revision)
	}
	return nil
}
