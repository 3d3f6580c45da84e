package up

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/dev/oidc"
	"github.com/gpuaas/gpuaas/platform/identity/devseed"
	"github.com/gpuaas/gpuaas/server"
)

// callbackPath is the path at which the server completes a sign-in of a browser.
const callbackPath = "/auth/callback"

// provider is the development issuer and its listener.
type provider struct {
	*oidc.Server

	url    string
	secret string // of the server's client
	http   *http.Server
	ended  chan struct{}
}

// startIssuer runs the OpenID provider that development signs in at, unless the
// environment names one.
func (i *installation) startIssuer(ctx context.Context) (named server.SignIn, err error) {
	if named, err = server.SignInFromEnv(os.Getenv); err != nil || named.Issuer != "" || !i.profile.Development {
		return named, err
	}
	listener, err := server.Listen(ctx, i.cfg.IssuerListen, true)
	if err != nil {
		return named, err
	}
	p := &provider{url: "http://" + listener.Addr().String(), secret: rand.Text(), ended: make(chan struct{})}
	if p.Server, err = oidc.New(oidc.Config{Issuer: p.url, Audience: devseed.Audience, Clients: p.clients(), People: people(), Log: i.cfg.Log}); err != nil {
		return named, errors.Join(err, listener.Close())
	}
	p.http = &http.Server{
		Handler: p.Server, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	go func() {
		defer close(p.ended)
		if err := p.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			i.cfg.Log.ErrorContext(ctx, "the development issuer ended", "component", "up", "err", err)
		}
	}()
	i.issuer = p
	return server.SignIn{Issuer: p.url, ClientID: devseed.Client, ClientSecret: p.secret, CLIClientID: devseed.CLIClient}, nil
}

// clients of the issuer; the server's pages are known once it has a port.
func (p *provider) clients(server ...string) []oidc.Client {
	web := oidc.Client{ID: devseed.Client, Secret: p.secret}
	for _, url := range server {
		web.Redirects = append(web.Redirects, url+callbackPath)
	}
	return []oidc.Client{web, {ID: devseed.CLIClient, Loopback: true, Device: true}}
}

func (p *provider) stop(ctx context.Context) error {
	if err := p.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("stopping the development issuer: %w", err)
	}
	<-p.ended
	return nil
}

func people() []oidc.Person {
	var known []oidc.Person
	for _, p := range devseed.People() {
		known = append(known, oidc.Person{Subject: p.Email, Email: p.Email, Name: p.Name, Roles: p.ProviderRoles()})
	}
	return known
}

// whoSignsIn names the people by tenant, for the screen: "dev, lead @dev.localhost".
func whoSignsIn() (lines []string) {
	names, domains := map[string][]string{}, []string{}
	for _, p := range devseed.People() {
		name, domain, _ := strings.Cut(p.Email, "@")
		if names[domain] == nil {
			domains = append(domains, domain)
		}
		names[domain] = append(names[domain], name)
	}
	for _, domain := range domains {
		lines = append(lines, strings.Join(names[domain], ", ")+" @"+domain)
	}
	return lines
}
