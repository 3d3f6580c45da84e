package forge

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gpuaas/gpuaas/internal/secretref"
)

// settings contains the fields of a GitSource spec that describe its forge.
type settings struct {
	Forge *struct {
		Kind     Kind   `json:"kind"`
		URL      string `json:"url"`
		Project  string `json:"project"`
		TokenRef string `json:"tokenRef"`
	} `json:"forge"`
}

// Of returns the adapter for the forge of a source. It returns false for a source without a forge
// and for one without a token, which can send no reports. Of reads the secret at each call, because
// an operator may have replaced it.
func Of(ctx context.Context, declared json.RawMessage, secrets *secretref.Credentials, allowPrivate bool) (f Forge, ok bool, err error) {
	var s settings
	if len(declared) > 0 {
		if err := json.Unmarshal(declared, &s); err != nil {
			return nil, false, fmt.Errorf("reading the settings of a source: %w", err)
		}
	}
	if s.Forge == nil || s.Forge.TokenRef == "" {
		return nil, false, nil
	}
	token, err := secrets.Resolve(ctx, s.Forge.TokenRef, s.Forge.URL)
	if err != nil {
		return nil, false, fmt.Errorf("reading the forge's token: %w", err)
	}
	f, err = New(Config{Kind: s.Forge.Kind, URL: s.Forge.URL, Project: s.Forge.Project, Token: token, AllowPrivate: allowPrivate})
	return f, err == nil, err
}
