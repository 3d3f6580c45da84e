// Package keystore opens the stores of private keys: files of the state directory, Vault or step-ca.
// Servers and commands open them by the same environment variables.
package keystore

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"path/filepath"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/stepca"
	"github.com/gpuaas/gpuaas/platform/secret/vault"
)

// KeyStores contains the private keys, each behind a port.
type KeyStores struct {
	Authority secret.Authority
	Signer    secret.Signer
	Users     secret.UserCA
}

// Drivers of the ports.
const (
	DriverLocal  = "local"   // files of the state directory
	DriverVault  = "vault"   // HashiCorp Vault
	DriverStepCA = "step-ca" // smallstep's authority
)

// Config selects the drivers and their locations.
type Config struct {
	Authority string // local, vault or step-ca
	Signer    string // local or vault
	Vault     vault.Config
	StepCA    stepca.Config
}

// ConfigFromEnv reads the drivers from the environment.
func ConfigFromEnv(getenv func(string) string) (k Config, err error) {
	k = Config{
		Authority: cmp.Or(getenv("GPUAAS_CA"), DriverLocal), Signer: cmp.Or(getenv("GPUAAS_TASK_SIGNER"), DriverLocal),
		Vault: vault.Config{
			URL: getenv("GPUAAS_VAULT_URL"), Namespace: getenv("GPUAAS_VAULT_NAMESPACE"), CAFile: getenv("GPUAAS_VAULT_CA_FILE"), RoleID: getenv("GPUAAS_VAULT_ROLE_ID"),
			PKI: cmp.Or(getenv("GPUAAS_VAULT_PKI"), "pki"), NodeRole: cmp.Or(getenv("GPUAAS_VAULT_NODE_ROLE"), "gpuaas-node"),
			ServerRole: cmp.Or(getenv("GPUAAS_VAULT_SERVER_ROLE"), "gpuaas-server"),
			Transit:    cmp.Or(getenv("GPUAAS_VAULT_TRANSIT"), "transit"), Key: cmp.Or(getenv("GPUAAS_VAULT_TASK_KEY"), "gpuaas-tasks"),
		},
		StepCA: stepca.Config{URL: getenv("GPUAAS_STEP_CA_URL"), RootFile: getenv("GPUAAS_STEP_CA_ROOT_FILE"), Provisioner: cmp.Or(getenv("GPUAAS_STEP_CA_PROVISIONER"), "gpuaas")},
	}
	for name, to := range map[string]*string{
		"GPUAAS_VAULT_TOKEN": &k.Vault.Token, "GPUAAS_VAULT_SECRET_ID": &k.Vault.SecretID, "GPUAAS_STEP_CA_KEY": &k.StepCA.Key,
	} {
		if *to, err = secretref.FromEnv(getenv, name); err != nil {
			return k, err
		}
	}
	return k, k.check()
}

func (k Config) check() error {
	usesVault := k.Authority == DriverVault || k.Signer == DriverVault
	switch {
	case k.Authority != DriverLocal && k.Authority != DriverVault && k.Authority != DriverStepCA:
		return errs.Invalid("GPUAAS_CA", "driver %q does not exist", k.Authority).Try("local, vault or step-ca")
	case k.Signer != DriverLocal && k.Signer != DriverVault:
		return errs.Invalid("GPUAAS_TASK_SIGNER", "driver %q does not exist", k.Signer).Try("local or vault")
	case usesVault && !isPrivateAddress(k.Vault.URL):
		return errs.Invalid("GPUAAS_VAULT_URL", "%q is no https address", k.Vault.URL)
	case usesVault && (k.Vault.Token == "") == (k.Vault.RoleID == "" || k.Vault.SecretID == ""):
		return errs.Invalid("GPUAAS_VAULT_TOKEN", "Vault needs either a token or an AppRole").Try("set GPUAAS_VAULT_TOKEN, or GPUAAS_VAULT_ROLE_ID and GPUAAS_VAULT_SECRET_ID")
	case k.Authority == DriverStepCA && !isPrivateAddress(k.StepCA.URL):
		return errs.Invalid("GPUAAS_STEP_CA_URL", "%q is no https address", k.StepCA.URL)
	case k.Authority == DriverStepCA && (k.StepCA.RootFile == "" || k.StepCA.Key == ""):
		return errs.Invalid("GPUAAS_STEP_CA_KEY", "step-ca needs GPUAAS_STEP_CA_ROOT_FILE and GPUAAS_STEP_CA_KEY")
	}
	return nil
}

// isPrivateAddress reports whether a token cannot be read in transit: the address uses TLS, or is the
// loopback interface.
func isPrivateAddress(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// Folders of the state directory with keys.
const (
	authorityDir = "ca"
	taskKeysDir  = "keys"
	loginKeysDir = "login-keys"
)

// Open opens the drivers. A server does not start if its authority does not respond, because it could
// enrol no node.
func Open(ctx context.Context, k Config, stateDir string, c clock.Clock) (o KeyStores, err error) {
	var client *vault.Client
	if k.Authority == DriverVault || k.Signer == DriverVault {
		if client, err = vault.New(ctx, k.Vault, c); err != nil {
			return o, err
		}
	}
	switch k.Authority {
	case DriverVault:
		o.Authority, err = vault.OpenAuthority(ctx, client)
	case DriverStepCA:
		o.Authority, err = stepca.Open(ctx, k.StepCA, c)
	default:
		o.Authority, err = pki.Open(filepath.Join(stateDir, authorityDir), c)
	}
	if err != nil {
		return o, err
	}
	if k.Signer == DriverVault {
		o.Signer, err = vault.OpenSigner(ctx, client)
	} else {
		o.Signer, err = secret.OpenSigner(filepath.Join(stateDir, taskKeysDir))
	}
	if err != nil {
		return o, err
	}
	o.Users, err = secret.OpenUserCA(filepath.Join(stateDir, loginKeysDir), c)
	return o, err
}
