package vault_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
	"github.com/gpuaas/gpuaas/platform/secret/vault"
)

const rootToken = "root"

// server is a separate Vault, without TLS, on the local machine only.
type server struct {
	*api.Client

	t       *testing.T
	address string
	process *exec.Cmd
}

// start runs the binary that make test-vault has built.
func start(t *testing.T) *server {
	t.Helper()
	binary := os.Getenv("GPUAAS_TEST_VAULT")
	if binary == "" {
		t.Skip("make test-vault runs this against a real Vault")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	var said bytes.Buffer
	cmd := exec.Command(binary, "server", "-dev", "-dev-root-token-id="+rootToken, "-dev-listen-address="+at, "-dev-no-store-token", "-log-level=warn")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	config := api.DefaultConfig()
	config.Address = "http://" + at
	c, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	c.SetToken(rootToken)
	v := &server{c, t, config.Address, cmd}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if h, err := c.Sys().HealthWithContext(ctx); err == nil && h.Initialized && !h.Sealed {
			return v
		}
		select {
		case <-ctx.Done():
			t.Fatal("Vault did not start")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (v *server) write(path string, data map[string]any) *api.Secret {
	v.t.Helper()
	got, err := v.Logical().WriteWithContext(v.t.Context(), path, data)
	if err != nil {
		v.t.Fatal(err)
	}
	return got
}

// configure executes the steps of docs/guides/rotate-ca-and-keys.md, and returns an AppRole with only the
// rights that the server needs.
func (v *server) configure() vault.Config {
	v.t.Helper()
	v.write("sys/mounts/pki", map[string]any{"type": "pki", "config": map[string]any{"max_lease_ttl": "87600h"}})
	v.write("pki/root/generate/internal", map[string]any{"common_name": "GPUaaS root", "issuer_name": "one", "ttl": "87600h", "key_type": "ec"})
	v.role("one")
	v.write("sys/mounts/transit", map[string]any{"type": "transit"})
	v.write("transit/keys/gpuaas-tasks", map[string]any{"type": "ed25519"})
	v.write("sys/policies/acl/gpuaas", map[string]any{"policy": `
		path "pki/sign/gpuaas-node"   { capabilities = ["update"] }
		path "pki/sign/gpuaas-server" { capabilities = ["update"] }
		path "pki/revoke"             { capabilities = ["update"] }
		path "pki/issuers"            { capabilities = ["list"] }
		path "pki/issuer/*"           { capabilities = ["read"] }
		path "transit/sign/gpuaas-tasks"        { capabilities = ["update"] }
		path "transit/keys/gpuaas-tasks"        { capabilities = ["read"] }
		path "transit/keys/gpuaas-tasks/rotate" { capabilities = ["update"] }
		path "transit/keys/gpuaas-tasks/config" { capabilities = ["update"] }`})
	v.write("sys/auth/approle", map[string]any{"type": "approle"})
	v.write("auth/approle/role/gpuaas", map[string]any{"token_policies": "gpuaas", "token_ttl": "1h", "token_max_ttl": "4h"})
	role, err := v.Logical().ReadWithContext(v.t.Context(), "auth/approle/role/gpuaas/role-id")
	if err != nil {
		v.t.Fatal(err)
	}
	id, _ := role.Data["role_id"].(string)
	made, _ := v.write("auth/approle/role/gpuaas/secret-id", nil).Data["secret_id"].(string)
	return vault.Config{
		URL: v.address, RoleID: id, SecretID: made,
		PKI: "pki", NodeRole: "gpuaas-node", ServerRole: "gpuaas-server", Transit: "transit", Key: "gpuaas-tasks",
	}
}

// role sets the issuer of the Vault roles, for nodes and the node API separately, so that a rotation can
// move one before the other.
func (v *server) role(node string) {
	v.t.Helper()
	v.write("pki/roles/gpuaas-node", map[string]any{
		"issuer_ref": node, "allowed_uri_sans": "spiffe://" + secrettest.Domain + "/node/*", "use_csr_sans": false, "use_csr_common_name": false, "require_cn": false,
		"allow_any_name": false, "allow_ip_sans": false, "key_type": "any", "client_flag": true, "server_flag": false, "max_ttl": "24h", "not_before_duration": "5m",
	})
	v.write("pki/roles/gpuaas-server", map[string]any{
		"issuer_ref": "one", "allowed_domains": "localhost,gpuaas.test", "allow_bare_domains": true, "allow_localhost": true, "allow_ip_sans": true,
		"use_csr_sans": false, "use_csr_common_name": false, "require_cn": false, "key_type": "any", "client_flag": false, "server_flag": true, "max_ttl": "24h", "not_before_duration": "5m",
	})
}

func (v *server) open(cfg vault.Config, c clock.Clock) (*vault.Authority, *vault.Signer) {
	v.t.Helper()
	client, err := vault.New(v.t.Context(), cfg, c)
	if err != nil {
		v.t.Fatal(err)
	}
	ca, err := vault.OpenAuthority(v.t.Context(), client)
	if err != nil {
		v.t.Fatal(err)
	}
	s, err := vault.OpenSigner(v.t.Context(), client)
	if err != nil {
		v.t.Fatal(err)
	}
	return ca, s
}

func TestRealVault(t *testing.T) {
	t.Parallel()
	v := start(t)
	cfg := v.configure()
	ca, signer := v.open(cfg, clock.Clock{})
	t.Run("authority", func(t *testing.T) { secrettest.Authority(t, ca) })
	t.Run("signer", func(t *testing.T) { secrettest.Signer(t, signer) })

	t.Run("a name of another domain is rejected by Vault itself", func(t *testing.T) {
		csr := secrettest.Request(t, secrettest.Key(t), nothing)
		_, err := ca.Issue(t.Context(), csr, pki.Name{Domain: "elsewhere", Kind: "node", ID: "1"}.URI(), time.Hour)
		if errs.CodeOf(err) != errs.Unavailable {
			t.Errorf("%v", err)
		}
	})
	t.Run("a second issuer is trusted in addition to the first", func(t *testing.T) {
		ahead := clock.At(func() time.Time { return clock.Clock{}.Now().Add(time.Minute) })
		v.write("pki/root/generate/internal", map[string]any{"common_name": "GPUaaS root 2", "issuer_name": "two", "ttl": "87600h", "key_type": "ec"})
		v.role("two") // nodes by the new, the node API by the old
		both, _ := v.open(cfg, ahead)
		if n := len(pki.BundleFingerprints(both.Bundle())); n != 2 {
			t.Errorf("%d roots", n)
		}
		secrettest.Authority(t, both)
		if _, err := v.Logical().DeleteWithContext(t.Context(), "pki/issuer/one"); err != nil {
			t.Fatal(err)
		}
		v.write("pki/roles/gpuaas-server", map[string]any{
			"issuer_ref": "two", "allowed_domains": "localhost", "allow_bare_domains": true, "allow_localhost": true, "allow_ip_sans": true,
			"use_csr_sans": false, "use_csr_common_name": false, "require_cn": false, "key_type": "any", "server_flag": true, "max_ttl": "24h",
		})
		last, _ := v.open(cfg, ahead)
		if n := len(pki.BundleFingerprints(last.Bundle())); n != 1 {
			t.Errorf("%d roots after the end of the first", n)
		}
		secrettest.Authority(t, last)
	})
	t.Run("a revoked token is replaced", func(t *testing.T) {
		if _, err := v.Logical().WriteWithContext(t.Context(), "sys/leases/revoke-prefix/auth/approle/login", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := signer.Sign(t.Context(), signer.Active(), []byte("order")); err != nil {
			t.Errorf("%v", err)
		}
	})
	t.Run("a Vault that is gone is a code, within seconds", func(t *testing.T) {
		if err := v.process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := signer.Sign(t.Context(), signer.Active(), []byte("order"))
		if errs.CodeOf(err) != errs.Unavailable || time.Since(began) > 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		csr := secrettest.Request(t, secrettest.Key(t), nothing)
		if _, err := ca.Issue(t.Context(), csr, pki.Name{Domain: secrettest.Domain, Kind: "node", ID: "1"}.URI(), time.Hour); errs.CodeOf(err) != errs.Unavailable {
			t.Errorf("%v", err)
		}
		if len(ca.Bundle()) == 0 || len(signer.Public()) == 0 {
			t.Error("what was known is forgotten")
		}
	})
}
