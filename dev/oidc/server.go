// Package oidc is the development OIDC provider: a real provider in process with a few known users and
// a page to choose one. It is never part of a production server.
package oidc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/telemetry"
)

// Client is a program that people sign in to.
type Client struct {
	ID        string
	Secret    string // empty: a public client
	Redirects []string
	Loopback  bool // /callback and / of any port of 127.0.0.1 as well
	Device    bool // may use the device flow
}

// Person is a user who may sign in.
type Person struct {
	Subject, Email, Name string
	Roles                []string // claim realm_access.roles
	OneFactor            bool     // has no second factor
}

// Config is the configuration of an issuer.
type Config struct {
	Issuer   string // its URL, of a loopback name
	Audience string // of access tokens
	Clients  []Client
	People   []Person
	Clock    clock.Clock
	Log      *slog.Logger
}

// Server is the provider.
type Server struct {
	op.UnimplementedServer

	cfg     Config
	library *slog.Logger
	base    string // the issuer without a slash at its end
	host    string
	clients atomic.Pointer[map[string]*client]
	people  atomic.Pointer[[]Person]
	store   store
	keys    signingKeys
	handler http.Handler
	// sameOrigin rejects forms of other sites, which could otherwise sign in as the user who visits
	// them.
	sameOrigin *http.CrossOriginProtection

	broken   atomic.Bool
	keyReads atomic.Int64
}

const (
	pathAuthorize = "/authorize"
	pathToken     = "/token"
	pathKeys      = "/keys"
	pathRevoke    = "/revoke"
	pathUserInfo  = "/userinfo"
	pathEnd       = "/end_session"
	pathDevice    = "/device_authorization"
)

// New makes an issuer; its server must answer at cfg.Issuer.
func New(cfg Config) (*Server, error) {
	at, err := url.Parse(cfg.Issuer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the issuer's URL: %w", err)
	case at.Hostname() != "localhost" && !net.ParseIP(at.Hostname()).IsLoopback():
		return nil, fmt.Errorf("an issuer without passwords serves loopback names alone, not %q", at.Host)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, library: telemetry.Library(cfg.Log, "oidc"), base: strings.TrimSuffix(cfg.Issuer, "/"), host: at.Host,
		sameOrigin: http.NewCrossOriginProtection(),
	}
	s.SetClients(cfg.Clients)
	s.SetPeople(cfg.People)
	if err := s.Rotate(); err != nil {
		return nil, err
	}
	s.handler = s.routes(strings.TrimSuffix(at.Path, "/"))
	return s, nil
}

func (s *Server) routes(prefix string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", s.askLogin)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("GET /device", s.askDevice)
	mux.HandleFunc("POST /device", s.approveDevice)
	mux.HandleFunc("GET /signed-out", s.signedOut)
	mux.HandleFunc("GET /style.css", style)
	mux.Handle("/", op.RegisterServer(s, op.Endpoints{
		Authorization: op.NewEndpoint(pathAuthorize), Token: op.NewEndpoint(pathToken), JwksURI: op.NewEndpoint(pathKeys),
		Revocation: op.NewEndpoint(pathRevoke), Userinfo: op.NewEndpoint(pathUserInfo), EndSession: op.NewEndpoint(pathEnd),
		DeviceAuthorization: op.NewEndpoint(pathDevice),
	}, op.WithFallbackLogger(s.library), op.WithServerCORSOptions(nil)))
	return http.StripPrefix(prefix, telemetry.Traced("gpuaas/issuer", mux))
}

// ServeHTTP serves all paths below the issuer's. It rejects another value of the header Host, because a foreign
// site may point its own name at this address (DNS rebinding).
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Host != s.host {
		http.Error(w, "This issuer answers at "+s.base+" only.", http.StatusMisdirectedRequest)
		return
	}
	keys := strings.HasSuffix(r.URL.Path, pathKeys)
	if keys {
		s.keyReads.Add(1)
	}
	if s.broken.Load() && (keys || strings.HasSuffix(r.URL.Path, oidc.DiscoveryEndpoint)) {
		http.Error(w, "broken for a test", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	s.handler.ServeHTTP(w, r)
}

// SetClients replaces the clients: where one's pages are may only be known after
// it has found this issuer.
func (s *Server) SetClients(clients []Client) {
	known := make(map[string]*client, len(clients))
	for _, c := range clients {
		known[c.ID] = &client{c, s.base}
	}
	s.clients.Store(&known)
}

func (s *Server) client(id string) *client { return (*s.clients.Load())[id] }

// SetPeople replaces the users who may sign in. A removed user gets no more tokens, and changed
// roles appear in the next ones.
func (s *Server) SetPeople(people []Person) {
	people = slices.Clone(people)
	s.people.Store(&people)
}

func (s *Server) person(subject string) (Person, bool) {
	for _, p := range *s.people.Load() {
		if p.Subject == subject {
			return p, true
		}
	}
	return Person{}, false
}

// JWKSRequests counts the requests for the keys.
func (s *Server) JWKSRequests() int { return int(s.keyReads.Load()) }

// Break makes discovery and the keys answer 503, or heals them.
func (s *Server) Break(broken bool) { s.broken.Store(broken) }

// Discovery describes the issuer.
func (s *Server) Discovery(context.Context, *op.Request[struct{}]) (*op.Response, error) {
	return op.NewResponse(&oidc.DiscoveryConfiguration{
		Issuer:                            s.cfg.Issuer,
		AuthorizationEndpoint:             s.base + pathAuthorize,
		TokenEndpoint:                     s.base + pathToken,
		UserinfoEndpoint:                  s.base + pathUserInfo,
		RevocationEndpoint:                s.base + pathRevoke,
		EndSessionEndpoint:                s.base + pathEnd,
		DeviceAuthorizationEndpoint:       s.base + pathDevice,
		JwksURI:                           s.base + pathKeys,
		ScopesSupported:                   []string{oidc.ScopeOpenID, oidc.ScopeProfile, oidc.ScopeEmail, oidc.ScopeOfflineAccess},
		ResponseTypesSupported:            []string{string(oidc.ResponseTypeCode)},
		ResponseModesSupported:            []string{string(oidc.ResponseModeQuery)},
		GrantTypesSupported:               []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken, oidc.GrantTypeDeviceCode},
		SubjectTypesSupported:             []string{"public"},
		IDTokenSigningAlgValuesSupported:  []string{string(algorithm)},
		TokenEndpointAuthMethodsSupported: []oidc.AuthMethod{oidc.AuthMethodBasic, oidc.AuthMethodPost, oidc.AuthMethodNone},
		CodeChallengeMethodsSupported:     []oidc.CodeChallengeMethod{oidc.CodeChallengeMethodS256},
		ClaimsSupported:                   []string{"sub", "aud", "exp", "iat", "iss", "azp", "nonce", "auth_time", "acr", "amr", "email", "email_verified", "name", "preferred_username", "realm_access"},
	}), nil
}

// Ready always is.
func (*Server) Ready(context.Context, *op.Request[struct{}]) (*op.Response, error) {
	return op.NewResponse(op.Status{Status: "ok"}), nil
}

// Keys lists the public keys of tokens that may still be in use.
func (s *Server) Keys(context.Context, *op.Request[struct{}]) (*op.Response, error) {
	return op.NewResponse(s.keys.public()), nil
}
