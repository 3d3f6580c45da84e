package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/secretref"
)

// hook takes what a forge says of a source, and has the source looked at. Nothing
// in it is believed; a hook that is lost costs one poll.
func (s *set) hook(ctx context.Context, source string, h http.Header, body []byte) error {
	state, err := s.desired.SourceByName(ctx, s.db, source)
	if errs.CodeOf(err) == errs.NotFound || err == nil && state.GoneAt != nil {
		// As a wrong signature is answered, and after as much work: who knows no secret
		// learns no name.
		_, _ = forge.Verify(forge.GitHub, []byte(source), h, body)
		return unsigned()
	}
	if err != nil {
		return err
	}
	var settings desired.GitSource
	if err := json.Unmarshal(state.Settings, &settings); err != nil {
		return fmt.Errorf("reading the settings of source %s: %w", source, err)
	}
	if settings.Forge == nil || settings.Forge.WebhookSecretRef == "" {
		return errs.New(errs.NotFound, "the source accepts no webhooks").Try("add a webhookSecretRef to the forge of the source")
	}
	secret, err := secretref.Resolve(ctx, settings.Forge.WebhookSecretRef)
	if err != nil {
		return fmt.Errorf("reading the secret of the hooks of %s: %s", source, err) //nolint:errorlint // ours to mend, and not the caller's: its code stays here
	}
	told, err := forge.Verify(forge.Kind(settings.Forge.Kind), secret, h, body)
	if errs.CodeOf(err) == errs.SignatureInvalid {
		return unsigned()
	}
	if err != nil {
		return err
	}
	if told.Kind == "" || strings.TrimPrefix(told.Branch, "refs/heads/") != strings.TrimPrefix(state.Ref, "refs/heads/") {
		return nil // of a branch that nobody follows
	}
	if _, err := s.desired.AskSource(ctx, s.db, source); err != nil {
		return err
	}
	s.changes.Hints.Send(desired.HintSources)
	return nil
}

// unsigned is one answer for all that is not signed.
func unsigned() error {
	return errs.New(errs.SignatureInvalid, "this is signed for no source of this name").
		Try("compare the secret at the forge with the source's webhookSecretRef")
}
