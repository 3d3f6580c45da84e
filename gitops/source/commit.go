package source

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/gpuaas/gpuaas/gitops/source/pack"
	"github.com/gpuaas/gpuaas/gitops/source/text"
)

// largestCommit exceeds any real commit: merges of the kernel with their tags stay below 100 kB.
const largestCommit = 1 << 20

// commit is a commit object, parsed from its raw bytes. The signature covers these bytes, and what
// is applied must be the same text. go-git would encode its parsed form again.
type commit struct {
	Commit
	tree    plumbing.Hash
	parents []plumbing.Hash
	// committerEmail is the raw text of the commit, to compare and not to display.
	committerEmail string
	signature      string
	signed         []byte // the object without its signature
}

// parseCommit rejects duplicate and unsorted headers, as git fsck does: two readers of one commit
// must not find two trees.
func parseCommit(hash plumbing.Hash, raw []byte) (commit, error) {
	head, message, ok := bytes.Cut(raw, []byte("\n\n"))
	if ok {
		head = raw[:len(head)+1]
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return commit{}, malformed(plumbing.CommitObject, hash, "has a zero byte in its header")
	}
	c := commit{Commit: Commit{Hash: hash.String(), Message: title(message)}}
	h := headers{rest: head, signed: make([]byte, 0, len(raw))}
	for h.next() {
		if err := c.header(&h); err != nil {
			return commit{}, malformed(plumbing.CommitObject, hash, err.Error())
		}
	}
	if c.tree.IsZero() || !h.found["author"] || !h.found["committer"] {
		return commit{}, malformed(plumbing.CommitObject, hash, "names no tree, author or committer")
	}
	if len(c.parents) > 0 {
		c.Parent = c.parents[0].String()
	}
	c.signed = append(h.signed, raw[len(head):]...)
	return c, nil
}

// headers iterates over the header of a commit, one entry with its continuation lines at a time, and collects the bytes
// that a signature covers.
type headers struct {
	rest, line, signed []byte
	name, value        string
	found              map[string]bool
}

func (h *headers) next() bool {
	if len(h.rest) == 0 {
		return false
	}
	end := 0
	for {
		i := bytes.IndexByte(h.rest[end:], '\n')
		if i < 0 {
			end = len(h.rest)
			break
		}
		end += i + 1
		if end == len(h.rest) || h.rest[end] != ' ' {
			break
		}
	}
	h.line, h.rest = h.rest[:end], h.rest[end:]
	h.name, h.value, _ = strings.Cut(strings.TrimSuffix(string(h.line), "\n"), " ")
	return true
}

func (c *commit) header(h *headers) error {
	if h.found == nil {
		h.found = map[string]bool{}
	}
	again := h.found[h.name]
	h.found[h.name] = true
	switch h.name {
	case "tree":
		if again || len(h.found) > 1 || !plumbing.IsHash(h.value) {
			return errors.New("has a tree that is not its one first line")
		}
		c.tree = plumbing.NewHash(h.value)
	case "parent":
		if h.found["author"] || !plumbing.IsHash(h.value) {
			return errors.New("has a parent that is none")
		}
		c.parents = append(c.parents, plumbing.NewHash(h.value))
	case "author", "committer":
		if again {
			return fmt.Errorf("has two lines %q", h.name)
		}
		c.person(h.name, h.value)
	case "gpgsig":
		if again {
			return errors.New("has two signatures")
		}
		c.signature = strings.ReplaceAll(h.value, "\n ", "\n")
		return nil // not part of what is signed
	}
	h.signed = append(h.signed, h.line...)
	return nil
}

// person stores the author or the committer. Names are made printable, because they appear in terminals and comments.
func (c *commit) person(role, value string) {
	var who object.Signature
	who.Decode([]byte(value))
	if role == "author" {
		c.Author, c.AuthorEmail = text.Printable(who.Name), text.Printable(who.Email)
		return
	}
	c.At, c.committerEmail, c.Committer = who.When.UTC(), who.Email, text.Printable(who.Email)
}

// title is the first line of a message.
func title(message []byte) string {
	first, _, _ := strings.Cut(strings.TrimLeft(string(message[:min(len(message), 4<<10)]), "\n"), "\n")
	return text.Printable(first)
}

func readCommit(from pack.Objects, hash plumbing.Hash) (commit, error) {
	raw, err := pack.ReadObject(from, plumbing.CommitObject, hash, largestCommit)
	if err != nil {
		return commit{}, err
	}
	return parseCommit(hash, raw)
}
