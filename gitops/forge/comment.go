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

// Comment edits a comment by its id. If the id is unknown or its comment was deleted, Comment
// searches our own comments for the marker, and creates a new comment if there is none.
func (c *client) Comment(ctx context.Context, want Comment) (string, error) {
	text := want.Marker + "\n" + want.Body
	// The stored id includes the path. After the source has moved to another forge, the number
	// alone would identify another user's comment.
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
	_, err := c.send(ctx, at.edit, at.item+url.PathEscape(id), map[string]string{"body": text})
	return err
}

// find searches the comments for ours. Any user may copy the marker, and many tokens may edit other
// users' comments, so only a comment of our own account is ours.
func (c *client) find(ctx context.Context, want Comment) (string, error) {
	me, err := c.whoami(ctx)
	if err != nil || me == "" {
		return "", err
	}
	// Gitea returns all comments at once and no next page.
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

// whoami returns the id of the token's account. Tokens without the right to read it, as those of
// GitHub apps, have none: find returns nothing, and a new comment is created.
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
