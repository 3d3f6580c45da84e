package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// line is one conversation with a repository's git-upload-pack. We hold it
// ourselves, over go-git's messages: go-git's clients follow the user's ssh
// configuration and the environment's proxies, and judge no address.
type line interface {
	refs(ctx context.Context) (io.Reader, error)
	request(ctx context.Context, request []byte) (io.Reader, error)
	Close() error
}

// call opens a line to where the source is.
func (s *Source) call(ctx context.Context) (line, error) {
	u, err := parse(s.remote)
	if err != nil {
		return nil, err
	}
	return map[string]func(context.Context, *url.URL) (line, error){"https": s.overHTTPS, "ssh": s.overSSH, "file": s.local}[u.Scheme](ctx, u)
}

// largestAdvertisement is that of a hundred thousand refs.
const largestAdvertisement = 8 << 20

// offer is what the other side says of itself.
type offer struct {
	refs    map[string]plumbing.Hash
	peeled  map[string]plumbing.Hash
	shallow []plumbing.Hash
	caps    *capability.List
}

func greet(ctx context.Context, l line) (offer, error) {
	r, err := l.refs(ctx)
	if err != nil {
		return offer{}, err
	}
	a := packp.NewAdvRefs()
	err = a.Decode(&atMost{r: r, left: largestAdvertisement, what: "the repository lists more refs than are read"})
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return offer{}, errs.New(errs.NotFound, "the repository has no commit yet")
	case err != nil:
		return offer{}, fmt.Errorf("reading the refs: %w", cut(err))
	}
	o := offer{refs: a.References, peeled: a.Peeled, shallow: a.Shallows, caps: a.Capabilities}
	if a.Head != nil {
		o.refs["HEAD"] = *a.Head
	}
	return o, nil
}

// find is the commit that a ref names over there, and the ref's full name. A full
// hash names itself: whether the other side has it shows when it is asked for.
func (o offer) find(ref string) (string, plumbing.Hash, error) {
	for _, name := range []string{ref, "refs/heads/" + ref, "refs/tags/" + ref} {
		if strings.Count(ref, "/") == 0 && name == ref && ref != "HEAD" {
			continue // only HEAD stands outside of refs
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

// request asks for one commit: all of it that the haves do not reach, or no more
// than so many commits of it.
type request struct {
	want    plumbing.Hash
	haves   []plumbing.Hash
	shallow []plumbing.Hash
	depth   int
}

func (r request) encode(o offer) ([]byte, error) {
	var to bytes.Buffer
	e := pktline.NewEncoder(&to)
	caps := []string{"agent=gpuaas"}
	for _, c := range []capability.Capability{capability.OFSDelta, capability.Sideband64k, capability.NoProgress} {
		if o.caps.Supports(c) {
			caps = append(caps, c.String())
		}
	}
	lines := []string{fmt.Sprintf("want %s %s\n", r.want, strings.Join(caps, " "))}
	for _, h := range r.shallow {
		lines = append(lines, fmt.Sprintf("shallow %s\n", h))
	}
	if r.depth > 0 {
		lines = append(lines, fmt.Sprintf("deepen %d\n", r.depth))
	}
	lines = append(lines, "") // a flush
	for _, h := range r.haves {
		lines = append(lines, fmt.Sprintf("have %s\n", h))
	}
	if err := e.EncodeString(append(lines, "done\n")...); err != nil {
		return nil, fmt.Errorf("asking for %s: %w", r.want, err)
	}
	return to.Bytes(), nil
}

// answer is what stands before the pack.
type answer struct {
	shallow, unshallow []plumbing.Hash
	pack               io.Reader
}

// send asks, and reads up to where the pack begins.
func (r request) send(ctx context.Context, l line, o offer) (a answer, err error) {
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
	for deepened := r.depth > 0; s.Scan(); {
		text := string(bytes.TrimSuffix(s.Bytes(), []byte("\n")))
		word, rest, _ := strings.Cut(text, " ")
		switch {
		case word == "shallow" && deepened:
			a.shallow = append(a.shallow, plumbing.NewHash(rest))
		case word == "unshallow" && deepened:
			a.unshallow = append(a.unshallow, plumbing.NewHash(rest))
		case text == "" && deepened:
			deepened = false
		case acknowledges(word) && !deepened:
			// Of haves that are one another's parents each may be acknowledged.
			if next, err := in.Peek(8); err == nil && acknowledges(string(next[4:7])) {
				continue
			}
			a.pack = in
			if o.caps.Supports(capability.Sideband64k) {
				a.pack = sideband.NewDemuxer(sideband.Sideband64k, in)
			}
			return a, nil
		default:
			return a, fmt.Errorf("the repository answers %q", printable(text))
		}
	}
	if said, ok := errors.AsType[*pktline.ErrorLine](s.Err()); ok {
		return a, errs.New(errs.Unavailable, "the repository answers: %s", printable(said.Text))
	}
	if s.Err() != nil {
		return a, fmt.Errorf("reading the answer: %w", cut(s.Err()))
	}
	return a, fmt.Errorf("reading the answer: %w", io.ErrUnexpectedEOF)
}

func acknowledges(word string) bool { return word == "ACK" || word == "NAK" }

// atMost fails where io.LimitReader would pretend an end.
type atMost struct {
	r    io.Reader
	left int64
	what string
}

func (a *atMost) Read(b []byte) (int, error) {
	if a.left <= 0 {
		return 0, excess("%s", a.what)
	}
	n, err := a.r.Read(b[:min(int64(len(b)), a.left)])
	a.left -= int64(n)
	return n, err
}

// known are the tips that the other side need not send again.
func (s *store) known() (haves, shallow []plumbing.Hash) {
	for _, h := range s.tips {
		if !slices.Contains(haves, h) {
			haves = append(haves, h)
		}
	}
	for h := range s.shallow {
		shallow = append(shallow, h)
	}
	return haves, shallow
}
