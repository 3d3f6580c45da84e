package oidc

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// endpoints are the addresses of the provider's endpoints.
type endpoints struct {
	oauth2.Endpoint

	keys, revocation, endSession string
}

// discover reads the provider's discovery document. go-oidc rejects a document of another issuer.
func (p *Provider) discover(ctx context.Context) (endpoints, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Config.Issuer)
	if err != nil {
		return endpoints{}, fmt.Errorf("asking the sign-in provider about itself: %w", err)
	}
	var more struct {
		Keys       string   `json:"jwks_uri"`
		Revocation string   `json:"revocation_endpoint"`
		EndSession string   `json:"end_session_endpoint"`
		Methods    []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return endpoints{}, fmt.Errorf("reading the sign-in provider's discovery document: %w", err)
	}
	e := endpoints{Endpoint: found.Endpoint(), keys: more.Keys, revocation: more.Revocation, endSession: more.EndSession}
	// OpenID Connect Discovery: basic is the default.
	e.AuthStyle = oauth2.AuthStyleInHeader
	if len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		e.AuthStyle = oauth2.AuthStyleInParams
	}
	for _, address := range []string{e.AuthURL, e.TokenURL, e.keys, e.revocation, e.endSession} {
		if err := p.safe(address); err != nil {
			return endpoints{}, err
		}
	}
	return e, nil
}

// safe rejects an http address from a provider that is configured with https.
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
