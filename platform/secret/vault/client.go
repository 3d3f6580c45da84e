// Package vault keeps private keys in HashiCorp Vault: certificates come from its
// PKI engine, signatures of tasks from its transit engine. Nothing here sees a
// private key but that of the node door's own certificate.
//
// What Vault answers is checked by our own rules, so that a role that was
// configured too widely does not widen what we give.
package vault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// Config says where Vault is, and who we are to it.
type Config struct {
	URL       string
	Namespace string
	CAFile    string // of the server's certificate, where the system does not know it

	Token            string // or:
	RoleID, SecretID string // of an AppRole

	PKI        string // mount of the PKI engine; pki
	NodeRole   string // role for nodes; gpuaas-node
	ServerRole string // role for the node door; gpuaas-server
	Transit    string // mount of the transit engine; transit
	Key        string // Ed25519 key that signs tasks; gpuaas-tasks
}

const (
	// within bounds one call: a node waits for a certificate, and a transaction for
	// the signature of a task.
	within = 3 * time.Second
	// lookEvery is how often keys and issuers are read again.
	lookEvery = 5 * time.Second
)

// Client speaks to Vault as one identity and keeps its token alive. Authority and
// Signer share it.
type Client struct {
	api   *api.Client
	cfg   Config
	clock clock.Clock

	mu    sync.Mutex
	renew time.Time // when the token wants to be renewed; zero: never
}

// New signs in.
func New(ctx context.Context, cfg Config, c clock.Clock) (*Client, error) {
	use := api.DefaultConfig()
	if use.Error != nil {
		return nil, fmt.Errorf("reading the environment of Vault: %w", use.Error)
	}
	use.Address, use.Timeout, use.MaxRetries = cfg.URL, within, 0
	if cfg.CAFile != "" {
		if err := use.ConfigureTLS(&api.TLSConfig{CACert: cfg.CAFile}); err != nil {
			return nil, errs.Invalid("GPUAAS_VAULT_CA_FILE", "%v", err)
		}
	}
	made, err := api.NewClient(use)
	if err != nil {
		return nil, fmt.Errorf("reaching Vault: %w", err)
	}
	made.SetNamespace(cfg.Namespace)
	made.SetToken(cfg.Token)
	v := &Client{api: made, cfg: cfg, clock: c}
	if cfg.RoleID != "" {
		return v, v.login(ctx)
	}
	return v, v.look(ctx)
}

// login trades the AppRole for a token.
func (v *Client) login(ctx context.Context) error {
	got, err := v.api.Logical().WriteWithContext(ctx, "auth/approle/login", map[string]any{"role_id": v.cfg.RoleID, "secret_id": v.cfg.SecretID})
	if err != nil {
		return away("sign in to Vault", err)
	}
	if got == nil || got.Auth == nil {
		return errs.New(errs.Unavailable, "Vault returned no token for the sign-in")
	}
	v.api.SetToken(got.Auth.ClientToken)
	v.lasts(time.Duration(got.Auth.LeaseDuration) * time.Second)
	return nil
}

// look asks how long a given token lasts.
func (v *Client) look(ctx context.Context) error {
	got, err := v.api.Auth().Token().LookupSelfWithContext(ctx)
	if err != nil {
		return away("check the token for Vault", err)
	}
	ttl, err := got.TokenTTL()
	if err != nil {
		return away("check the token for Vault", err)
	}
	if renewable, err := got.TokenIsRenewable(); err == nil && renewable {
		v.lasts(ttl)
	}
	return nil
}

func (v *Client) lasts(ttl time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.renew = time.Time{}
	if ttl > 0 {
		v.renew = v.clock.Now().Add(ttl / 2)
	}
}

// alive renews the token at half of its life, or signs in anew where it cannot be
// renewed any more.
func (v *Client) alive(ctx context.Context) error {
	v.mu.Lock()
	due := !v.renew.IsZero() && !v.clock.Now().Before(v.renew)
	v.mu.Unlock()
	if !due {
		return nil
	}
	got, err := v.api.Auth().Token().RenewSelfWithContext(ctx, 0)
	if err == nil && got != nil && got.Auth != nil && got.Auth.LeaseDuration > 0 {
		v.lasts(time.Duration(got.Auth.LeaseDuration) * time.Second)
		return nil
	}
	if v.cfg.RoleID != "" {
		return v.login(ctx)
	}
	return away("renew the token for Vault", err)
}

// write calls Vault. A token that is not taken any more is replaced once.
func (v *Client) write(ctx context.Context, what, path string, data map[string]any) (*api.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	got, err := v.api.Logical().WriteWithContext(ctx, path, data)
	if refused(err) && v.cfg.RoleID != "" && v.login(ctx) == nil {
		got, err = v.api.Logical().WriteWithContext(ctx, path, data)
	}
	if err != nil {
		return nil, away(what, err)
	}
	return got, nil
}

func (v *Client) read(ctx context.Context, what, path string) (*api.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	got, err := v.api.Logical().ReadWithContext(ctx, path)
	if refused(err) && v.cfg.RoleID != "" && v.login(ctx) == nil {
		got, err = v.api.Logical().ReadWithContext(ctx, path)
	}
	switch {
	case err != nil:
		return nil, away(what, err)
	case got == nil:
		return nil, errs.New(errs.Unavailable, "Vault has no secret at %s", path).Try("see docs/guides/rotate-ca-and-keys.md")
	}
	return got, nil
}

func refused(err error) bool {
	said, ok := errors.AsType[*api.ResponseError](err)
	return ok && said.StatusCode == http.StatusForbidden
}

// away is what whoever waits for Vault is told. The cause goes to the log: it may
// name paths and policies.
func away(what string, err error) error {
	said, ok := errors.AsType[*api.ResponseError](err)
	if ok && said.StatusCode < http.StatusInternalServerError && said.StatusCode != http.StatusTooManyRequests {
		return errs.New(errs.Unavailable, "Vault rejected the request to %s", what).Try("an operator finds the reason in the server's log").Because(err)
	}
	return errs.New(errs.Unavailable, "Vault did not respond in time to %s", what).Try("try again").Because(err)
}
