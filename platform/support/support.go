// Package support builds and reads support bundles. A bundle is an archive that shows the state of an installation to
// a person who helps, without its secrets. Nothing sends it anywhere.
package support

import (
	"context"
	"time"
)

// Limits of a bundle.
const (
	// MostBytes limits an archive, and sectionBytes one of its files before the compression.
	MostBytes    = 20 << 20
	sectionBytes = 4 << 20
	// Within is the time for all sections, and sectionWithin that for one.
	Within        = 30 * time.Second
	sectionWithin = 10 * time.Second
)

// Section is one file of a bundle.
type Section struct {
	// File is its name. The ending decides how the content is redacted: .json, .jsonl or .txt. Every other content is
	// compared with the secrets only.
	File string
	// Meaning is one sentence for the manifest.
	Meaning string
	// Names states that the names in it are those of people, tenants, projects, nodes and repositories, for pseudonyms.
	Names bool
	// Read returns the content. A section that cannot be read is an omission of the bundle.
	Read func(context.Context) ([]byte, error)
}

// Secret is a value that no bundle may contain. Errors show the name only.
type Secret struct{ Name, Value string }

// Options of a bundle.
type Options struct {
	Environment, Version string
	CreatedAt            time.Time
	// PseudonymKey replaces names by pseudonyms, which are the same in each bundle with this key. Nil: names stay.
	PseudonymKey []byte
}

// Manifest states what a bundle contains and what it lacks.
type Manifest struct {
	Format      int       `json:"format"`
	Environment string    `json:"environment"`
	Version     string    `json:"version"`
	CreatedAt   time.Time `json:"created_at"`
	// Pseudonyms states that names were replaced.
	Pseudonyms bool       `json:"pseudonyms"`
	Files      []File     `json:"files"`
	Omitted    []Omission `json:"omitted"`
}

// File is a section in a bundle.
type File struct {
	Name    string `json:"name"`
	Meaning string `json:"meaning"`
	Bytes   int    `json:"bytes"`
	SHA256  string `json:"sha256"`
	// Redactions is the number of values that were masked or replaced.
	Redactions int `json:"redactions"`
	// Truncated states that only the end of a log, or the beginning of another text, is there.
	Truncated bool `json:"truncated"`
}

// Omission is a section that could not be read.
type Omission struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

const (
	format       = 1
	manifestFile = "manifest.json"
)
