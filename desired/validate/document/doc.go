// Package document reads YAML and JSON documents of desired objects as values with their positions. It rejects what
// readers interpret differently, and it knows no kind.
package document
