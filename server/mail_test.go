package server

import (
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/secretref"
)

// A server that starts with a part of a mail server names the missing one.
func TestIncompleteMailServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"mail": "gpuaas:secret\n", "half": "gpuaas"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	credentials, err := secretref.CredentialsFromEnv(func(name string) string {
		return map[string]string{"GPUAAS_CREDENTIALS": "mail=smtp.test:587 half=smtp.test:587 other=else.test", "GPUAAS_CREDENTIALS_DIR": dir}[name]
	}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	front := middleware.Front{URL: &url.URL{Scheme: "https", Host: "gpuaas.test"}}
	for name, c := range map[string]struct {
		mail    desired.Mail
		front   middleware.Front
		roles   []Role
		missing string
	}{
		"nothing":                  {mail: desired.Mail{Port: 587}},
		"a sender without server":  {mail: desired.Mail{From: "a@gpuaas.test", Port: 587}, missing: "names no server"},
		"a server without sender":  {mail: desired.Mail{Host: "smtp.test", Port: 587}, missing: "mail.from"},
		"complete":                 {mail: desired.Mail{From: "a@gpuaas.test", Host: "smtp.test", Port: 587, CredentialRef: "credential:mail"}, front: front},
		"a login without password": {mail: desired.Mail{From: "a@gpuaas.test", Host: "smtp.test", Port: 587, CredentialRef: "credential:half"}, front: front, missing: "user:password"},
		"a login of another":       {mail: desired.Mail{From: "a@gpuaas.test", Host: "smtp.test", Port: 25, CredentialRef: "credential:mail"}, front: front, missing: "must not be sent"},
		"no such credential":       {mail: desired.Mail{From: "a@gpuaas.test", Host: "smtp.test", Port: 587, CredentialRef: "credential:none"}, front: front, missing: "credential:none"},
		"no address for links":     {mail: desired.Mail{From: "a@gpuaas.test", Host: "smtp.test", Port: 587}, missing: "--public-url"},
		"another role":             {mail: desired.Mail{Host: "smtp.test"}, roles: []Role{RoleAPI}},
	} {
		cfg := Config{Roles: c.roles, Credentials: credentials, Front: c.front, Profile: desired.Environment{Mail: c.mail}, Log: slog.New(slog.DiscardHandler)}
		if cfg.Roles == nil {
			cfg.Roles = []Role{RoleWork}
		}
		err := cfg.checkMail(t.Context())
		if (err == nil) != (c.missing == "") || err != nil && !strings.Contains(err.Error(), c.missing) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret\n") {
			t.Errorf("%s: the error has the password", name)
		}
	}
}
