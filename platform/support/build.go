package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// content is a section after Read.
type content struct {
	Section

	text       []byte
	err        error
	redactions int
	truncated  bool
}

// Build reads all sections and returns the archive. It returns an error, and no archive, if a secret is in a section.
func Build(ctx context.Context, sections []Section, secrets []Secret, o Options) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	all := readAll(ctx, sections)
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	var names pseudonyms
	if o.PseudonymKey != nil {
		names = namesIn(all, o.PseudonymKey)
	}
	searched := search(secrets)
	m := Manifest{
		Format: format, Environment: o.Environment, Version: o.Version, CreatedAt: o.CreatedAt.UTC(), Pseudonyms: o.PseudonymKey != nil, Files: []File{}, Omitted: []Omission{},
	}
	for i := range all {
		c := &all[i]
		if c.err == nil {
			c.err = c.clean(names)
		}
		if c.err != nil {
			reason := string(c.cleanText([]byte(strings.Join(strings.Fields(c.err.Error()), " ")), names))
			if name := searched.in([]byte(reason)); name != "" { // before it is cut
				return nil, errs.New(errs.Internal, "the reason why the section %s is missing contains the secret %s, so no bundle was made", c.File, name)
			}
			m.Omitted = append(m.Omitted, Omission{c.File, reason[:min(len(reason), mostReason)]})
			continue
		}
		if name := searched.in(c.text); name != "" {
			return nil, errs.New(errs.Internal, "the section %s contains the secret %s, so no bundle was made", c.File, name).
				Try("report this as a fault of the software; the other sections can be read one by one")
		}
		digest := sha256.Sum256(c.text)
		m.Files = append(m.Files, File{c.File, c.Meaning, len(c.text), hex.EncodeToString(digest[:]), c.redactions, c.truncated})
	}
	return pack(m, all)
}

// readAll reads the sections concurrently.
func readAll(ctx context.Context, sections []Section) []content {
	all := make([]content, len(sections))
	var wg sync.WaitGroup
	places := make(chan struct{}, 4) // the readers use the same pool of connections as requests
	for i, s := range sections {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			all[i] = read(ctx, s)
		})
	}
	wg.Wait()
	return all
}

// read limits the time and the size of one section. A panic in another goroutine than that of the request would end the
// server.
func read(ctx context.Context, s Section) (c content) {
	ctx, cancel := context.WithTimeout(ctx, sectionWithin)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			c = content{Section: s, err: fmt.Errorf("panic: %v", p)}
		}
	}()
	c = content{Section: s}
	if c.text, c.err = s.Read(ctx); c.err != nil || len(c.text) <= sectionBytes {
		return c
	}
	c.truncated = true
	switch path.Ext(s.File) {
	case ".jsonl":
		c.text = c.text[len(c.text)-sectionBytes:]
		c.text = c.text[bytes.IndexByte(c.text, '\n')+1:]
	case ".txt":
		c.text = c.text[:bytes.LastIndexByte(c.text[:sectionBytes], '\n')+1]
	default:
		c.err = errs.New(errs.BodyTooLarge, "the section has %d bytes, and the limit is %d", len(c.text), sectionBytes)
	}
	return c
}

// mostReason limits the reason of an omission.
const mostReason = 300

// pack writes the archive, its manifest first. Equal content makes equal bytes.
func pack(m Manifest, all []content) ([]byte, error) {
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest of a support bundle: %w", err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	err = add(t, manifestFile, head, m.CreatedAt)
	for _, c := range all {
		if err == nil && slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == c.File }) {
			err = add(t, c.File, c.text, m.CreatedAt)
		}
	}
	if err == nil {
		err = t.Close()
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("packing a support bundle: %w", err)
	}
	if out.Len() > MostBytes {
		return nil, errs.New(errs.BodyTooLarge, "the bundle has %d bytes, and the limit is %d", out.Len(), MostBytes)
	}
	return out.Bytes(), nil
}

func add(t *tar.Writer, name string, text []byte, at time.Time) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), ModTime: at.Truncate(time.Second), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := t.Write(text)
	return err
}
