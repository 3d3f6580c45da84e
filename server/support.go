package server

import (
	"cmp"
	"path/filepath"

	restsupport "github.com/gpuaas/gpuaas/api/rest/support"
	"github.com/gpuaas/gpuaas/platform/support"
	"github.com/gpuaas/gpuaas/server/process"
)

// describe returns the sections of a support bundle about this process, and the secrets that the process was given.
func (s *Server) describe() restsupport.Process {
	roles := make([]string, len(s.cfg.Roles))
	for i, r := range s.cfg.Roles {
		roles[i] = string(r)
	}
	p := process.Process{Roles: roles, Profile: s.cfg.Profile, Started: s.started, Metrics: s.metrics, DB: s.pool(RoleAPI), Log: s.cfg.RecentLog}
	return restsupport.Process{Sections: p.Sections(), Secrets: append(process.Secrets(), s.cfg.secrets()...)}
}

// secrets are the values of the configuration that no bundle may contain.
func (c Config) secrets() (all []support.Secret) {
	for name, value := range map[string]string{
		"DATABASE_URL": process.Password(c.DatabaseURL), "OIDC client secret": c.SignIn.ClientSecret, "payment key": c.Payments.SecretKey, "payment webhook secret": c.Payments.WebhookSecret,
		"Vault token": c.Keys.Vault.Token, "Vault secret id": c.Keys.Vault.SecretID, "step-ca key": c.Keys.StepCA.Key,
	} {
		all = append(all, support.Secret{Name: name, Value: value})
	}
	for role, address := range c.DatabaseURLs {
		all = append(all, support.Secret{Name: "database login of the role " + string(role), Value: process.Password(address)})
	}
	for name, value := range c.Credentials.All() {
		all = append(all, support.Secret{Name: "credential " + name, Value: string(value)})
	}
	return append(all, process.KeyFile(cmp.Or(c.Keys.KEKFile, filepath.Join(c.StateDir, "kek.json")))...)
}
