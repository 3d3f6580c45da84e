package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Comment edits by id where there is one. A person may have deleted it, and the
// database may have lost it: then it is looked for by its marker among our own,
// and made anew if there is none.
func (c *client) Comment(ctx context.Context, want Comment) (string, error) {
	text := want.Marker + "\n" + want.Body
	// The id with its place: the number alone would be somebody else's comment after
	// the source has moved to another forge.
	place := c.base + c.comments(want.Pull).all + "#"
	known, here := strings.CutPrefix(want.RemoteID, place)
	if here {
		switch err := c.edit(ctx, want.Pull, known, text); {
		case err == nil:
			return want.RemoteID, nil
		case errs.CodeOf(err) != errs.NotFound:
			return "", fmt.Errorf("editing the comment on pull request %d: %w", want.Pull, err)
		}
	}
	id, err := c.find(ctx, want)
	if err != nil {
		return "", fmt.Errorf("looking for the comment on pull request %d: %w", want.Pull, err)
	}
	if id != "" {
		if err := c.edit(ctx, want.Pull, id, text); err != nil {
			return "", fmt.Errorf("editing the comment on pull request %d: %w", want.Pull, err)
		}
		return place + id, nil
	}
	body, err := c.send(ctx, http.MethodPost, c.comments(want.Pull).all, map[string]string{"body": text})
	if err != nil {
		return "", fmt.Errorf("commenting on pull request %d: %w", want.Pull, err)
	}
	made, err := c.readComments([]byte("[" + string(body) + "]"))
	if err != nil || len(made) != 1 || made[0].ID == "" {
		return "", unread(err)
	}
	return place + made[0].ID, nil
}

func (c *client) edit(ctx context.Context, pull int, id, text string) error {
	at := c.comments(pull)
	_, err := c.send(ctx, at.edit, at.each+url.PathEscape(id), map[string]string{"body": text})
	return err
}

// find looks through the comments for ours. Anybody may copy the marker, and many
// tokens may edit anybody's words: only what we have written ourselves is ours.
func (c *client) find(ctx context.Context, want Comment) (string, error) {
	me, err := c.whoami(ctx)
	if err != nil || me == "" {
		return "", err
	}
	// Gitea gives all at once, and says of no other page.
	for page := 1; page <= maxPages; page++ {
		body, more, err := c.get(ctx, fmt.Sprintf("%s?per_page=100&page=%d", c.comments(want.Pull).all, page))
		if err != nil {
			return "", err
		}
		found, err := c.readComments(body)
		if err != nil {
			return "", unread(err)
		}
		for _, one := range found {
			if one.Author == me && strings.HasPrefix(one.Body, want.Marker) {
				return one.ID, nil
			}
		}
		if !more {
			break
		}
	}
	return "", nil
}

// whoami is the id of the token's own account. A token that may not ask, as those
// of GitHub's apps, has none: it finds nothing again, and makes a new comment.
func (c *client) whoami(ctx context.Context) (string, error) {
	body, _, err := c.get(ctx, "/user")
	if err != nil {
		said, ok := errors.AsType[*answer](err)
		if ok && errs.CodeOf(err) != errs.RateLimited && (said.status == http.StatusForbidden || said.status == http.StatusNotFound) {
			return "", nil
		}
		return "", err
	}
	var me struct{ ID int64 }
	if err := json.Unmarshal(body, &me); err != nil || me.ID == 0 {
		return "", unread(err)
	}
	return number(me.ID), nil
}
