package forge

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Pull is a pull request as a user opens it.
type Pull struct {
	From, Into string // branches
	Title      string
	Author     string
	// Fork makes the commits part of another repository: the commit named in From is in this one,
	// but no branch here contains it.
	Fork bool
}

type pull struct {
	Pull

	Number   int
	comments []*Comment
	closed   bool
	merged   bool
}

// Open opens a pull request and sends the webhook.
func (d *Double) Open(ctx context.Context, p Pull) (number int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := &pull{Pull: p, Number: len(d.pulls) + 1}
	d.account(p.Author)
	if p.Fork {
		if _, err := d.git(ctx, "update-ref", d.pullRef(one.Number), p.From); err != nil {
			return 0, err
		}
	}
	d.pulls = append(d.pulls, one)
	if err := d.refresh(ctx); err != nil {
		return 0, err
	}
	d.deliverPull(ctx, one, "opened")
	return one.Number, nil
}

// Close closes a pull request without merging it.
func (d *Double) Close(number int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pulls[number-1].closed = true
}

// Merge merges a pull request with a merge commit and sends the webhook. A merge conflict is an
// error.
func (d *Double) Merge(ctx context.Context, number int) (commit string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.refresh(ctx); err != nil {
		return "", err
	}
	p := d.pulls[number-1]
	into, head := d.ref(ctx, "refs/heads/"+p.Into), d.ref(ctx, d.pullRef(number))
	tree, err := d.git(ctx, "merge-tree", "--write-tree", into, head)
	if err != nil {
		return "", err
	}
	tree, _, _ = strings.Cut(tree, "\n")
	commit, err = d.git(ctx, "commit-tree", tree, "-p", into, "-p", head, "-m", fmt.Sprintf("Merge pull request #%d: %s", number, p.Title))
	if err != nil {
		return "", err
	}
	if _, err := d.git(ctx, "update-ref", "refs/heads/"+p.Into, commit, into); err != nil {
		return "", err
	}
	p.closed, p.merged = true, true
	d.deliverPush(ctx, p.Into, into, commit)
	return commit, nil
}

// Comment adds a user's comment to a pull request.
func (d *Double) Comment(number int, author, body string) (id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.comment(d.pulls[number-1], author, body).ID
}

func (d *Double) comment(p *pull, author, body string) *Comment {
	d.account(author)
	c := &Comment{ID: d.id(), Author: author, Body: body}
	p.comments = append(p.comments, c)
	return c
}

// Delete deletes a comment.
func (d *Double) Delete(id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pulls {
		p.comments = slices.DeleteFunc(p.comments, func(c *Comment) bool { return c.ID == id })
	}
}

// Comments returns the present comments of a pull request.
func (d *Double) Comments(number int) (all []Comment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.pulls[number-1].comments {
		all = append(all, *c)
	}
	return all
}

// Statuses are the newest of each context of a commit.
func (d *Double) Statuses(commit string) map[string]Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	newest := map[string]Status{}
	for _, s := range d.statuses[commit] {
		newest[s.Context] = s
	}
	return newest
}

// Stated returns all statuses that a commit ever had, oldest first.
func (d *Double) Stated(commit string) []Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.statuses[commit])
}

// find is a pull request by the text of its number, or nil.
func (d *Double) find(number string) *pull {
	for _, p := range d.pulls {
		if fmt.Sprint(p.Number) == number {
			return p
		}
	}
	return nil
}
