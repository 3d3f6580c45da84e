// Package keystore opens private keys: those that PostgreSQL stores, each sealed under a key-encryption key,
// and those of Vault or step-ca. A process opens the keys of its roles. Servers and commands read the same
// environment variables.
package keystore

import (
	"cmp"
	"net"
	"net/url"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/platform/secret/stepca"
	"github.com/gpuaas/gpuaas/platform/secret/vault"
)

// Drivers of the ports.
const (
	DriverLocal  = "local"   // sealed in PostgreSQL
	DriverVault  = "vault"   // HashiCorp Vault
	DriverStepCA = "step-ca" // smallstep's authority
	DriverFile   = "file"    // of the key-encryption key only
)

// Config selects the drivers and their locations.
type Config struct {
	Authority string // local, vault or step-ca
	Signer    string // of tasks: local or vault
	KEK       string // key-encryption key: file or vault
	KEKFile   string // its path; empty: kek.json in the state directory
	Vault     vault.Config
	StepCA    stepca.Config
}

// ConfigFromEnv reads the drivers from the environment.
func ConfigFromEnv(getenv func(string) string) (k Config, err error) {
	k = Config{
		Authority: cmp.Or(getenv("GPUAAS_CA"), DriverLocal), Signer: cmp.Or(getenv("GPUAAS_TASK_SIGNER"), DriverLocal),
		KEK: cmp.Or(getenv("GPUAAS_KEK"), DriverFile), KEKFile: getenv("GPUAAS_KEK_FILE"),
		Vault: vault.Config{
			URL: getenv("GPUAAS_VAULT_URL"), Namespace: getenv("GPUAAS_VAULT_NAMESPACE"), CAFile: getenv("GPUAAS_VAULT_CA_FILE"), RoleID: getenv("GPUAAS_VAULT_ROLE_ID"),
			PKI: cmp.Or(getenv("GPUAAS_VAULT_PKI"), "pki"), NodeRole: cmp.Or(getenv("GPUAAS_VAULT_NODE_ROLE"), "gpuaas-node"),
			ServerRole: cmp.Or(getenv("GPUAAS_VAULT_SERVER_ROLE"), "gpuaas-server"),
			Transit:    cmp.Or(getenv("GPUAAS_VAULT_TRANSIT"), "transit"), Key: cmp.Or(getenv("GPUAAS_VAULT_TASK_KEY"), "gpuaas-tasks"),
			KEK: cmp.Or(getenv("GPUAAS_VAULT_KEK"), "gpuaas-kek"),
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
	usesVault := k.usesVault()
	switch {
	case k.Authority != DriverLocal && k.Authority != DriverVault && k.Authority != DriverStepCA:
		return errs.Invalid("GPUAAS_CA", "driver %q does not exist", k.Authority).Try("local, vault or step-ca")
	case k.Signer != DriverLocal && k.Signer != DriverVault:
		return errs.Invalid("GPUAAS_TASK_SIGNER", "driver %q does not exist", k.Signer).Try("local or vault")
	case k.KEK != DriverFile && k.KEK != DriverVault:
		return errs.Invalid("GPUAAS_KEK", "driver %q does not exist", k.KEK).Try("file or vault")
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

func (k Config) usesVault() bool {
	return k.Authority == DriverVault || k.Signer == DriverVault || k.KEK == DriverVault
}

// stored lists the purposes whose keys PostgreSQL stores.
func (k Config) stored() (purposes []string) {
	for _, u := range Uses() {
		elsewhere := u.Purpose == PurposeAuthority && k.Authority != DriverLocal && k.Authority != "" || u.Purpose == PurposeTasks && k.Signer == DriverVault
		if !elsewhere {
			purposes = append(purposes, u.Purpose)
		}
	}
	return purposes
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
