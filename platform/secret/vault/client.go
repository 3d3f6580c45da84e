// Package vault uses private keys in HashiCorp Vault: its PKI engine issues certificates, task
// and its transit engine signs tasks and seals stored keys. The only other private key in this
// process is that of the node API's own certificate.
//
// Responses of Vault are checked against our own rules, so that a Vault role with too many rights does
// not widen the certificates that we issue.
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

// Config contains Vault's address and our credentials.
type Config struct {
	URL       string
	Namespace string
	CAFile    string // of the server's certificate, where the system does not know it

	Token            string // or:
	RoleID, SecretID string // of an AppRole

	PKI        string // mount of the PKI engine; pki
	NodeRole   string // role for nodes; gpuaas-node
	ServerRole string // role for the node API; gpuaas-server
	Transit    string // mount of the transit engine; transit
	Key        string // Ed25519 key that signs tasks; gpuaas-tasks
	KEK        string // AES-GCM key that seals stored keys; gpuaas-kek
}

const (
	// within bounds one call: a node waits for a certificate, and a transaction for
	// the signature of a task.
	within = 3 * time.Second
	// checkEvery is the interval at which keys and issuers are read again.
	checkEvery = 5 * time.Second
)

// Client is an authenticated Vault client that renews its token. Authority and Signer share it.
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
	return v, v.readTokenTTL(ctx)
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

// readTokenTTL reads the remaining lifetime of a given token.
func (v *Client) readTokenTTL(ctx context.Context) error {
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

// alive renews the token at half of its lifetime, or signs in again where it cannot be renewed any more.
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

// write calls Vault. A rejected token is replaced once.
func (v *Client) write(ctx context.Context, what, path string, data map[string]any) (*api.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	got, err := v.api.Logical().WriteWithContext(ctx, path, data)
	if isForbidden(err) && v.cfg.RoleID != "" && v.login(ctx) == nil {
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
	if isForbidden(err) && v.cfg.RoleID != "" && v.login(ctx) == nil {
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

func isForbidden(err error) bool {
	said, ok := errors.AsType[*api.ResponseError](err)
	return ok && said.StatusCode == http.StatusForbidden
}

// away returns the error for callers while Vault is unavailable. The cause goes to the log, because it
// may contain paths and policies.
func away(what string, err error) error {
	said, ok := errors.AsType[*api.ResponseError](err)
	if ok && said.StatusCode < http.StatusInternalServerError && said.StatusCode != http.StatusTooManyRequests {
		return errs.New(errs.Unavailable, "Vault rejected the request to %s", what).Try("an operator finds the reason in the server's log").Because(err)
	}
	return errs.New(errs.Unavailable, "Vault did not respond in time to %s", what).Try("try again").Because(err)
}
