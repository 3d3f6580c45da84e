package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed all:dist
var dist embed.FS

// Asset is a file of the portal. Its name has a hash of its content.
type Asset struct {
	ContentType string
	ETag        string
	// Encodings are the content by coding: gzip, br, and "" without one.
	Encodings map[string][]byte
}

// Portal is the built portal.
type Portal struct {
	Assets map[string]Asset // by path below the portal

	head, tail []byte // the page before and after the nonce
}

// nonceMark is replaced in the page by the nonce of the response.
const nonceMark = "__NONCE__"

// NewPortal returns the embedded portal.
func NewPortal() (*Portal, error) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, fmt.Errorf("reading the portal: %w", err)
	}
	return PortalOf(files)
}

// PortalOf reads a built portal. Without index.html the portal has no page: it was not built.
func PortalOf(files fs.FS) (*Portal, error) {
	p := &Portal{Assets: map[string]Asset{}}
	page, err := fs.ReadFile(files, "index.html")
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	var found bool
	if p.head, p.tail, found = bytes.Cut(page, []byte(nonceMark)); err != nil || !found {
		return nil, fmt.Errorf("index.html of the portal has no %s: %w", nonceMark, err)
	}
	err = fs.WalkDir(files, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err == nil {
			p.add(name, content)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the portal: %w", err)
	}
	return p, nil
}

// codings are the codings of a file by its ending.
var codings = map[string]string{".gz": "gzip", ".br": "br"}

// contentTypes do not depend on the tables of the operating system.
var contentTypes = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

func (p *Portal) add(name string, content []byte) {
	coding, ok := codings[path.Ext(name)]
	if ok {
		name = strings.TrimSuffix(name, path.Ext(name))
	}
	a := p.Assets[name]
	if a.Encodings == nil {
		a.Encodings = map[string][]byte{}
		a.ContentType = contentTypes[path.Ext(name)]
	}
	if coding == "" {
		sum := sha256.Sum256(content)
		a.ETag = base64.RawURLEncoding.EncodeToString(sum[:12])
	}
	a.Encodings[coding] = content
	p.Assets[name] = a
}

// Built returns whether the portal was built.
func (p *Portal) Built() bool { return p.head != nil }

// Page returns the page of all screens for a nonce of its styles.
func (p *Portal) Page(nonce string) []byte {
	return bytes.Join([][]byte{p.head, p.tail}, []byte(nonce))
}
