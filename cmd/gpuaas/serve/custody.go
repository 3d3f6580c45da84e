package serve

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/stepca"
	"github.com/gpuaas/gpuaas/platform/secret/vault"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// Custody is where private keys are used: behind a port each.
type Custody struct {
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

// Keys says which drivers there are, and where they find what.
type Keys struct {
	Authority string // local, vault or step-ca
	Signer    string // local or vault
	Vault     vault.Config
	StepCA    stepca.Config
}

// KeysFromEnv reads the drivers from the environment.
func KeysFromEnv(getenv func(string) string) (k Keys, err error) {
	k = Keys{
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
		if *to, err = secretOf(getenv, name); err != nil {
			return k, err
		}
	}
	return k, k.check()
}

func (k Keys) check() error {
	usesVault := k.Authority == DriverVault || k.Signer == DriverVault
	switch {
	case k.Authority != DriverLocal && k.Authority != DriverVault && k.Authority != DriverStepCA:
		return errs.Invalid("GPUAAS_CA", "there is no driver %q", k.Authority).Try("local, vault or step-ca")
	case k.Signer != DriverLocal && k.Signer != DriverVault:
		return errs.Invalid("GPUAAS_TASK_SIGNER", "there is no driver %q", k.Signer).Try("local or vault")
	case usesVault && !private(k.Vault.URL):
		return errs.Invalid("GPUAAS_VAULT_URL", "%q is no https address", k.Vault.URL)
	case usesVault && (k.Vault.Token == "") == (k.Vault.RoleID == "" || k.Vault.SecretID == ""):
		return errs.Invalid("GPUAAS_VAULT_TOKEN", "Vault needs either a token or an AppRole").Try("set GPUAAS_VAULT_TOKEN, or GPUAAS_VAULT_ROLE_ID and GPUAAS_VAULT_SECRET_ID")
	case k.Authority == DriverStepCA && !private(k.StepCA.URL):
		return errs.Invalid("GPUAAS_STEP_CA_URL", "%q is no https address", k.StepCA.URL)
	case k.Authority == DriverStepCA && (k.StepCA.RootFile == "" || k.StepCA.Key == ""):
		return errs.Invalid("GPUAAS_STEP_CA_KEY", "step-ca needs GPUAAS_STEP_CA_ROOT_FILE and GPUAAS_STEP_CA_KEY")
	}
	return nil
}

// private says that nobody between reads a token: TLS, or this machine.
func private(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// login signs a key for one allocation, with a terminal.
func (k Custody) login(ctx context.Context, key ssh.PublicKey, id ids.Allocation, user string, ttl time.Duration) (allocation.Login, error) {
	c, err := k.Users.Sign(ctx, secret.Login{Key: key, Allocation: id.String(), User: user, TTL: ttl, PTY: true})
	return allocation.Login{Certificate: c.Text, Serial: c.Serial, ExpiresAt: c.NotAfter}, err
}

// Folders of the state directory that hold keys.
const (
	authorityDir = "ca"
	taskKeysDir  = "keys"
	loginKeysDir = "login-keys"
)

// OpenCustody opens the drivers. A server does not start on an authority that
// does not answer: it could let nobody in.
func OpenCustody(ctx context.Context, k Keys, stateDir string, c clock.Clock) (o Custody, err error) {
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

// refreshEvery is within how long a roll-over that was begun beside a running
// server is noticed.
const refreshEvery = time.Second

// watchKeys notices what a person or another server did to the keys.
func (s *Server) watchKeys(ctx context.Context) error {
	k := s.rooms.custody
	t := time.NewTicker(refreshEvery)
	defer t.Stop()
	var warn time.Time
	for {
		if now := s.cfg.Clock.Now(); !now.Before(warn) {
			warn = now.Add(warnEvery)
			s.warnOfEnd(ctx, now)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		for what, refresh := range map[string]func(context.Context) error{"authority": k.Authority.Refresh, "task keys": k.Signer.Refresh, "user authority": k.Users.Refresh, "release keys": s.rooms.releases.keys.Refresh} {
			if err := refresh(ctx); err != nil && ctx.Err() == nil {
				// What is known goes on being used.
				s.cfg.Log.WarnContext(ctx, "keys not read again", "component", "server", "keys", what, "err", err)
			}
		}
	}
}

const (
	// warnFrom leaves a month for a roll-over that takes an hour.
	warnFrom  = 30 * 24 * time.Hour
	warnEvery = 24 * time.Hour
)

// warnOfEnd says when our own authority must be rolled over. Those elsewhere have
// warnings of their own.
func (s *Server) warnOfEnd(ctx context.Context, now time.Time) {
	local, ok := s.rooms.custody.Authority.(*pki.Local)
	if !ok {
		return
	}
	list := local.Generations()
	newest := list[len(list)-1]
	if end := newest.Issuing.NotAfter; end.Before(now.Add(warnFrom)) {
		s.cfg.Log.WarnContext(ctx, "the authority ends soon: roll it over with gpuaas ca rotate", "component", "server", "ends", end)
	}
}

// agentDir is where the builds of the agent lie: beside this program, unless the
// configuration says otherwise.
func (c Config) agentDir() string {
	if c.AgentDir != "" {
		return c.AgentDir
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(self)
}
