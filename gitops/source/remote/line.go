// Package remote requests packs from git-upload-pack over https, ssh, or as a program of this computer. It
// connects to allowed addresses only and uses no proxy and no configuration of the user or the system.
// It does not read packs.
package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"github.com/gpuaas/gpuaas/gitops/source/pack"
	sourcetext "github.com/gpuaas/gpuaas/gitops/source/text"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// Line is one connection to a repository's git-upload-pack. We implement it with go-git's message
// types only: go-git's clients follow the user's SSH configuration and the proxies of the
// environment, and check no address.
type Line interface {
	Refs(ctx context.Context) (io.Reader, error)
	request(ctx context.Context, request []byte) (io.Reader, error)
	Close() error
}

// Remote is the address of a repository and what authorizes reading it.
type Remote struct {
	URL          *url.URL // https, ssh or file
	Auth         Auth
	AllowPrivate bool // the address may be one of this computer or its link
	AllowFile    bool // the URL may be a folder of this computer
}

// Auth contains the credentials of a source. The caller resolves them from references. They are
// neither logged nor stored on disk.
type Auth struct {
	Token      []byte // https
	SSHKey     []byte // ssh: a private key in PEM
	KnownHosts []byte // ssh: lines of a known_hosts file; without them no server is trusted
	CA         []byte // https: PEM certificates to trust instead of the system's
}

// Call opens a line to the repository.
func (r Remote) Call(ctx context.Context) (Line, error) {
	switch r.URL.Scheme {
	case "https":
		return r.overHTTPS(ctx, r.URL)
	case "ssh":
		return r.overSSH(ctx, r.URL)
	}
	return r.local(ctx, r.URL)
}

// largestAdvertisement is that of a hundred thousand refs.
const largestAdvertisement = 8 << 20

// Advertisement is the server's advertisement: its refs and capabilities.
type Advertisement struct {
	refs    map[string]plumbing.Hash
	peeled  map[string]plumbing.Hash
	Shallow []plumbing.Hash
	caps    *capability.List
}

func Greet(ctx context.Context, l Line) (Advertisement, error) {
	r, err := l.Refs(ctx)
	if err != nil {
		return Advertisement{}, err
	}
	a := packp.NewAdvRefs()
	err = a.Decode(&pack.AtMost{R: r, Left: largestAdvertisement, What: "the repository lists more refs than are read"})
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return Advertisement{}, errs.New(errs.NotFound, "the repository has no commit yet")
	case err != nil:
		return Advertisement{}, fmt.Errorf("reading the refs: %w", pack.Cut(err))
	}
	o := Advertisement{refs: a.References, peeled: a.Peeled, Shallow: a.Shallows, caps: a.Capabilities}
	if a.Head != nil {
		o.refs["HEAD"] = *a.Head
	}
	return o, nil
}

// Find returns the full name and the commit of a ref that the server advertised. A full hash
// resolves to itself. The server may still reject it during the fetch.
func (o Advertisement) Find(ref string) (string, plumbing.Hash, error) {
	for _, name := range []string{ref, "refs/heads/" + ref, "refs/tags/" + ref} {
		if strings.Count(ref, "/") == 0 && name == ref && ref != "HEAD" {
			continue // only HEAD is outside of refs
		}
		if hash, ok := o.peeled[name]; ok {
			return name, hash, nil
		}
		if hash, ok := o.refs[name]; ok {
			return name, hash, nil
		}
	}
	return "", plumbing.ZeroHash, errs.New(errs.NotFound, "the repository has no ref %q", ref)
}

// Request requests one commit with all ancestors that the haves do not reach, or with a limited
// number of them.
type Request struct {
	Commit  plumbing.Hash
	Haves   []plumbing.Hash
	Shallow []plumbing.Hash
	Depth   int
}

func (r Request) encode(o Advertisement) ([]byte, error) {
	var to bytes.Buffer
	e := pktline.NewEncoder(&to)
	caps := []string{"agent=gpuaas"}
	for _, c := range []capability.Capability{capability.OFSDelta, capability.Sideband64k, capability.NoProgress} {
		if o.caps.Supports(c) {
			caps = append(caps, c.String())
		}
	}
	lines := []string{fmt.Sprintf("want %s %s\n", r.Commit, strings.Join(caps, " "))}
	for _, h := range r.Shallow {
		lines = append(lines, fmt.Sprintf("shallow %s\n", h))
	}
	if r.Depth > 0 {
		lines = append(lines, fmt.Sprintf("deepen %d\n", r.Depth))
	}
	lines = append(lines, "") // a flush
	for _, h := range r.Haves {
		lines = append(lines, fmt.Sprintf("have %s\n", h))
	}
	if err := e.EncodeString(append(lines, "done\n")...); err != nil {
		return nil, fmt.Errorf("asking for %s: %w", r.Commit, err)
	}
	return to.Bytes(), nil
}

// answer is the part of the response before the pack.
type answer struct {
	Shallow, Unshallow []plumbing.Hash
	Pack               io.Reader
}

// Send sends the request and reads the response up to the start of the pack.
func (r Request) Send(ctx context.Context, l Line, o Advertisement) (a answer, err error) {
	text, err := r.encode(o)
	if err != nil {
		return a, err
	}
	from, err := l.request(ctx, text)
	if err != nil {
		return a, err
	}
	in := bufio.NewReader(from)
	s := pktline.NewScanner(in)
	for deepened := r.Depth > 0; s.Scan(); {
		text := string(bytes.TrimSuffix(s.Bytes(), []byte("\n")))
		word, rest, _ := strings.Cut(text, " ")
		switch {
		case word == "shallow" && deepened:
			a.Shallow = append(a.Shallow, plumbing.NewHash(rest))
		case word == "unshallow" && deepened:
			a.Unshallow = append(a.Unshallow, plumbing.NewHash(rest))
		case text == "" && deepened:
			deepened = false
		case acknowledges(word) && !deepened:
			// Of haves that are one another's parents each may be acknowledged.
			if next, err := in.Peek(8); err == nil && acknowledges(string(next[4:7])) {
				continue
			}
			a.Pack = in
			if o.caps.Supports(capability.Sideband64k) {
				a.Pack = sideband.NewDemuxer(sideband.Sideband64k, in)
			}
			return a, nil
		default:
			return a, fmt.Errorf("the repository answers %q", sourcetext.Printable(text))
		}
	}
	if said, ok := errors.AsType[*pktline.ErrorLine](s.Err()); ok {
		return a, errs.New(errs.Unavailable, "the repository answers: %s", sourcetext.Printable(said.Text))
	}
	if s.Err() != nil {
		return a, fmt.Errorf("reading the answer: %w", pack.Cut(s.Err()))
	}
	return a, fmt.Errorf("reading the answer: %w", io.ErrUnexpectedEOF)
}

func acknowledges(word string) bool { return word == "ACK" || word == "NAK" }
