package forge

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Delivery is a hook that was sent, and what its receiver answered: 0 is nothing.
type Delivery struct {
	Event  string
	Body   []byte
	Status int
}

// HookTo has hooks go there from now on: a server that was started again may
// listen elsewhere.
func (d *Double) HookTo(url string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cfg.HookURL = url
}

// Deliveries lists the hooks so far.
func (d *Double) Deliveries() []Delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.hooks)
}

const nowhere = "0000000000000000000000000000000000000000"

// pushed sends webhooks for every branch that a push has moved, and for the pull requests that
// moved with it.
func (d *Double) pushed(ctx context.Context, before map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := d.branches(ctx)
	if err := d.refresh(ctx); err != nil {
		return
	}
	for branch, commit := range after {
		if was := before[branch]; was != commit {
			d.deliverPush(ctx, branch, was, commit)
			for _, p := range d.pulls {
				if p.From == branch && !p.closed {
					d.deliverPull(ctx, p, "synchronize")
				}
			}
		}
	}
	for branch, commit := range before {
		if after[branch] == "" {
			d.deliverPush(ctx, branch, commit, nowhere)
		}
	}
}

func (d *Double) deliverPush(ctx context.Context, branch, before, after string) {
	if before == "" {
		before = nowhere
	}
	event := "push"
	body := map[string]any{"ref": "refs/heads/" + branch, "before": before, "after": after, "repository": map[string]any{"full_name": d.cfg.Project}}
	if d.cfg.Kind == GitLab {
		event = "Push Hook"
		body = map[string]any{"object_kind": "push", "ref": "refs/heads/" + branch, "before": before, "after": after, "project": map[string]any{"path_with_namespace": d.cfg.Project}}
	}
	d.deliver(ctx, event, body)
}

func (d *Double) deliverPull(ctx context.Context, p *pull, action string) {
	head := d.ref(ctx, d.pullRef(p.Number))
	event := "pull_request"
	body := map[string]any{"action": action, "number": p.Number, "pull_request": map[string]any{
		"number": p.Number, "title": p.Title, "head": map[string]any{"sha": head, "ref": p.From}, "base": map[string]any{"ref": p.Into},
	}}
	if d.cfg.Kind == Gitea && action == "synchronize" {
		body["action"] = "synchronized"
	}
	if d.cfg.Kind == GitLab {
		event = "Merge Request Hook"
		body = map[string]any{"object_kind": "merge_request", "object_attributes": map[string]any{
			"iid": p.Number, "target_branch": p.Into, "source_branch": p.From, "last_commit": map[string]any{"id": head},
			"action": map[string]string{"opened": "open", "synchronize": "update"}[action],
		}}
	}
	d.deliver(ctx, event, body)
}

// hookTimeout is GitHub's limit for the response of a receiver.
const hookTimeout = 10 * time.Second

// deliver sends once: a forge does not send again by itself.
func (d *Double) deliver(ctx context.Context, event string, payload any) {
	if d.cfg.HookURL == "" {
		return
	}
	body, err := json.Marshal(payload)
	if err != nil {
		return
	}
	sent := Delivery{Event: event, Body: body}
	defer func() { d.hooks = append(d.hooks, sent) }()
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.cfg.HookURL, bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range d.proof(event, body) {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	sent.Status = res.StatusCode
}

// proof returns the headers with the event type and the signature.
func (d *Double) proof(event string, body []byte) map[string]string {
	mac := hmac.New(sha256.New, []byte(d.cfg.HookSecret))
	mac.Write(body)
	code := hex.EncodeToString(mac.Sum(nil))
	switch d.cfg.Kind {
	case GitLab:
		return map[string]string{"X-Gitlab-Event": event, "X-Gitlab-Token": d.cfg.HookSecret}
	case Gitea:
		return map[string]string{
			"X-Gitea-Event": event, "X-Gitea-Signature": code, "X-Gogs-Event": event, "X-Gogs-Signature": code,
			"X-GitHub-Event": event, "X-Hub-Signature-256": "sha256=" + code,
		}
	default:
		return map[string]string{"X-GitHub-Event": event, "X-Hub-Signature-256": "sha256=" + code}
	}
}

// Hook builds a webhook as this forge would send it, for tests that send it themselves.
func (d *Double) Hook(event string, body []byte) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	for name, value := range d.proof(event, body) {
		h.Set(name, strings.Clone(value))
	}
	return h
}
