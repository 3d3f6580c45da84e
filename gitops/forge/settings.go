package forge

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gpuaas/gpuaas/internal/secretref"
)

// settings are what a source declares of its forge, among other things.
type settings struct {
	Forge *struct {
		Kind     Kind   `json:"kind"`
		URL      string `json:"url"`
		Project  string `json:"project"`
		TokenRef string `json:"tokenRef"`
	} `json:"forge"`
}

// Of makes the adapter for the forge that a source's settings declare. It answers
// none for a source without one, and for one that is to be told nothing, since it
// names no token. The secret is read anew at each call: it may have been changed.
func Of(ctx context.Context, declared json.RawMessage, allowPrivate bool) (f Forge, ok bool, err error) {
	var s settings
	if len(declared) > 0 {
		if err := json.Unmarshal(declared, &s); err != nil {
			return nil, false, fmt.Errorf("reading the settings of a source: %w", err)
		}
	}
	if s.Forge == nil || s.Forge.TokenRef == "" {
		return nil, false, nil
	}
	token, err := secretref.Resolve(ctx, s.Forge.TokenRef)
	if err != nil {
		return nil, false, fmt.Errorf("reading the forge's token: %w", err)
	}
	f, err = New(Config{Kind: s.Forge.Kind, URL: s.Forge.URL, Project: s.Forge.Project, Token: token, AllowPrivate: allowPrivate})
	return f, err == nil, err
}
