package oidc

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// endpoints are where the provider does what.
type endpoints struct {
	oauth2.Endpoint

	keys, revocation string
}

// discover reads the provider's own description. go-oidc refuses one that speaks
// for another issuer.
func (p *Provider) discover(ctx context.Context) (endpoints, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Config.Issuer)
	if err != nil {
		return endpoints{}, fmt.Errorf("asking the sign-in provider about itself: %w", err)
	}
	var more struct {
		Keys       string   `json:"jwks_uri"`
		Revocation string   `json:"revocation_endpoint"`
		Methods    []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return endpoints{}, fmt.Errorf("reading what the sign-in provider says about itself: %w", err)
	}
	e := endpoints{Endpoint: found.Endpoint(), keys: more.Keys, revocation: more.Revocation}
	// OpenID Connect Discovery: basic is meant where nothing is said.
	e.AuthStyle = oauth2.AuthStyleInHeader
	if len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		e.AuthStyle = oauth2.AuthStyleInParams
	}
	for _, address := range []string{e.AuthURL, e.TokenURL, e.keys, e.revocation} {
		if err := p.safe(address); err != nil {
			return endpoints{}, err
		}
	}
	return e, nil
}

// safe refuses to go from https to http on the provider's word.
func (p *Provider) safe(address string) error {
	to, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("reading an address of the sign-in provider: %w", err)
	}
	from, err := url.Parse(p.Config.Issuer)
	if err != nil || address != "" && to.Scheme != "https" && to.Scheme != from.Scheme {
		return fmt.Errorf("the sign-in provider names %q, which is not https", address)
	}
	return nil
}
