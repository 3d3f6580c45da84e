package forge

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/secretref"
)

// settings are what a source declares of its forge, among other things.
type settings struct {
	Forge *struct {
		Kind             Kind   `json:"kind"`
		URL              string `json:"url"`
		Project          string `json:"project"`
		TokenRef         string `json:"tokenRef"`
		WebhookSecretRef string `json:"webhookSecretRef"`
	} `json:"forge"`
}

func read(declared json.RawMessage) (s settings, err error) {
	if len(declared) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(declared, &s); err != nil {
		return s, fmt.Errorf("reading the settings of a source: %w", err)
	}
	return s, nil
}

// Of makes the adapter for the forge that a source's settings declare. It answers
// none for a source without one, and for one that is to be told nothing, since it
// names no token. The secret is read anew at each call: it may have been changed.
func Of(ctx context.Context, declared json.RawMessage, allowPrivate bool) (f Forge, ok bool, err error) {
	s, err := read(declared)
	if err != nil || s.Forge == nil || s.Forge.TokenRef == "" {
		return nil, false, err
	}
	token, err := secretref.Resolve(ctx, s.Forge.TokenRef)
	if err != nil {
		return nil, false, fmt.Errorf("reading the forge's token: %w", err)
	}
	f, err = New(Config{Kind: s.Forge.Kind, URL: s.Forge.URL, Project: s.Forge.Project, Token: token, AllowPrivate: allowPrivate})
	return f, err == nil, err
}

// VerifyFor verifies a hook by what a source's settings declare.
func VerifyFor(ctx context.Context, declared json.RawMessage, h http.Header, body []byte) (Hook, error) {
	s, err := read(declared)
	if err != nil {
		return Hook{}, err
	}
	if s.Forge == nil || s.Forge.WebhookSecretRef == "" {
		return Verify("", nil, h, body)
	}
	secret, err := secretref.Resolve(ctx, s.Forge.WebhookSecretRef)
	if err != nil {
		// Not the sender's fault, and nothing that a sender should learn.
		return Hook{}, errs.New(errs.Unavailable, "this source's hooks cannot be verified now").Because(err)
	}
	return Verify(s.Forge.Kind, secret, h, body)
}
