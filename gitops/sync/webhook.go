package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Webhooks receives the webhooks of forges. A webhook only makes the next poll of its source
// earlier, so a lost one costs one poll
// interval; a push also records its pusher, and without it a change needs two approvals.
type Webhooks struct {
	DB      pg.Pool
	Desired *revision.Store
	Hints   *hint.Bus
	// Reports records who has pushed; Identity finds them among the users.
	Reports  *forge.Reports
	Identity *identity.Service
	// Credentials contains the secrets of webhooks.
	Credentials *secretref.Credentials
}

// Receive verifies a webhook and requests a poll of its source.
func (w *Webhooks) Receive(ctx context.Context, source string, h http.Header, body []byte) error {
	state, err := w.Desired.SourceByName(ctx, w.DB, source)
	unknown := errs.CodeOf(err) == errs.NotFound || err == nil && state.GoneAt != nil
	if err != nil && !unknown {
		return err
	}
	var settings desired.GitSource
	if !unknown {
		if err := json.Unmarshal(state.Settings, &settings); err != nil {
			return fmt.Errorf("reading the settings of source %s: %w", source, err)
		}
	}
	if settings.Forge == nil || settings.Forge.WebhookSecretRef == "" {
		// An unknown source and a source without webhooks get the response of a wrong signature, after as much
		// work. Without the secret, a client can't find out which names exist.
		_, _ = forge.Verify(forge.GitHub, []byte(source), h, body)
		return errUnsigned()
	}
	secret, err := w.Credentials.Resolve(ctx, settings.Forge.WebhookSecretRef, settings.Forge.URL)
	if err != nil {
		return fmt.Errorf("reading the secret of the hooks of %s: %s", source, err) //nolint:errorlint // the caller must not see the code: operators fix this
	}
	event, err := forge.Verify(forge.Kind(settings.Forge.Kind), secret, h, body)
	if errs.CodeOf(err) == errs.SignatureInvalid {
		return errUnsigned()
	}
	if err != nil {
		return err
	}
	if event.Kind == "" || strings.TrimPrefix(event.Branch, "refs/heads/") != strings.TrimPrefix(state.Ref, "refs/heads/") {
		return nil // no source syncs this branch
	}
	if err := w.addPusher(ctx, source, settings.Forge.Users, event); err != nil {
		return err
	}
	if _, err := w.Desired.RequestSync(ctx, w.DB, source); err != nil {
		return err
	}
	w.Hints.Send(revision.HintSources)
	return nil
}

// addPusher records who has pushed, before the poll that the webhook starts. Users maps names at the
// forge to e-mail addresses, because a forge may hide them.
func (w *Webhooks) addPusher(ctx context.Context, source string, users map[string]string, event forge.Hook) error {
	if event.Kind != forge.HookPush {
		return nil
	}
	p := event.Pusher
	if email, ok := users[p.Login]; ok {
		p.Email = email
	}
	known, err := w.Identity.UserHasEmail(ctx, p.Email)
	if err != nil {
		return err
	}
	if !known {
		p.Email = ""
	}
	return w.Reports.AddPusher(ctx, source, event.Commit, p)
}

// errUnsigned is the same for every webhook without a valid signature.
func errUnsigned() error {
	return errs.New(errs.SignatureInvalid, "this is signed for no source of this name").
		Try("compare the secret at the forge with the source's webhookSecretRef")
}
