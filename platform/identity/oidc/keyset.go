package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/platform/identity/jwt"
)

// keySet is the provider's published keys.
type keySet struct{ document cached[keys] }

type keys struct {
	all map[string]jwt.Key // by name
	// print is another one whenever a key came or went.
	print string
}

// newKeySet returns a key set that reads the keys from the address that address returns.
func newKeySet(client *http.Client, c clock.Clock, address func(context.Context) (string, error)) *keySet {
	return &keySet{cached[keys]{clock: c, fetch: func(ctx context.Context) (keys, error) {
		at, err := address(ctx)
		if err != nil {
			return keys{}, err
		}
		return fetchKeys(ctx, client, at)
	}}}
}

// verify checks the token with the key that it names.
func (s *keySet) verify(ctx context.Context, t jwt.Token) error {
	id := t.KeyID()
	if id == "" {
		return jwt.Reject("it names no key")
	}
	known, err := s.document.get(ctx, func(k keys) bool { _, ok := k.all[id]; return ok })
	if err != nil {
		return err
	}
	key, ok := known.all[id]
	if !ok {
		return jwt.Reject("key %q is unknown", id)
	}
	return t.Verify(key)
}

// print returns a fingerprint of the current keys. It also triggers their renewal, because the cache of
// verified tokens requests no key.
func (s *keySet) print(ctx context.Context) (string, error) {
	known, err := s.document.get(ctx, func(keys) bool { return true })
	return known.print, err
}

// maxKeys of one provider: some publish a key for each algorithm and tenant.
const maxKeys = 100

func fetchKeys(ctx context.Context, client *http.Client, address string) (keys, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return keys{}, fmt.Errorf("asking for the provider's keys: %w", err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return keys{}, fmt.Errorf("asking for the provider's keys: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return keys{}, fmt.Errorf("asking for the provider's keys: %s", answer.Status)
	}
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&document); err != nil {
		return keys{}, fmt.Errorf("reading the provider's keys: %w", err)
	}
	return keysOf(document.Keys)
}

// keysOf returns the supported keys. A key of an unknown type is skipped, so that the others stay
// usable. A document without any supported key is an error, and the previous keys stay in use.
func keysOf(published []json.RawMessage) (keys, error) {
	k := keys{all: map[string]jwt.Key{}}
	for _, text := range published[:min(len(published), maxKeys)] {
		var j jose.JSONWebKey
		if json.Unmarshal(text, &j) != nil {
			continue
		}
		key, err := jwt.NewKey(j)
		if _, twice := k.all[key.ID]; err != nil || twice {
			continue
		}
		k.all[key.ID] = key
	}
	if len(k.all) == 0 {
		return keys{}, errors.New("the provider publishes no key that can be used")
	}
	prints := []string{}
	for _, id := range slices.Sorted(maps.Keys(k.all)) {
		prints = append(prints, k.all[id].String())
	}
	k.print = strings.Join(prints, " ")
	return k, nil
}
