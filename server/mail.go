package server

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/notification/mail"
	"github.com/gpuaas/gpuaas/platform/notification/smtp"
)

// submissionPort is the port of mail servers for programs.
const submissionPort = 587

// checkMail names the part of the profile's mail server that is missing. Without a host, e-mails are logged.
func (c Config) checkMail(ctx context.Context) error {
	m := c.Profile.Mail
	if !c.hasRole(RoleWork) {
		return nil
	}
	switch {
	case m.Host == "" && (m.From != "" || m.CredentialRef != ""):
		return errs.Invalid("mail", "names no server, and has another part").Try("name the mail server, or leave out mail")
	case m.Host == "":
		return nil
	case m.From == "":
		return errs.Invalid("mail.from", "is empty, and %s is the mail server", m.Host).Try("name the sender, such as GPUaaS <noreply@gpuaas.example>")
	case c.Front.URL == nil && !c.hasRole(RoleAPI):
		return errs.Invalid("--public-url", "is not set, and e-mails link to it").Try("start the server with --public-url")
	case m.CredentialRef == "" && !smtp.Loopback(m.Host):
		c.Log.WarnContext(ctx, "the profile names a mail server without a login", "component", "mail", "server", m.Host)
		return nil
	case m.CredentialRef == "":
		return nil
	}
	_, _, err := c.mailLogin(ctx)
	return err
}

// mailLogin reads user:password.
func (c Config) mailLogin(ctx context.Context) (user, password string, err error) {
	m := c.Profile.Mail
	secret, err := c.Credentials.Resolve(ctx, m.CredentialRef, "smtp://"+net.JoinHostPort(m.Host, strconv.Itoa(cmp.Or(m.Port, submissionPort))))
	if err != nil {
		return "", "", err
	}
	user, password, both := strings.Cut(string(secret), ":")
	if !both || user == "" || password == "" {
		return "", "", errs.Invalid("mail.credentialRef", "%s does not contain user:password", m.CredentialRef)
	}
	return user, password, nil
}

// mailer returns how e-mails are sent.
func (c Config) mailer() mail.Mailer {
	m := c.Profile.Mail
	if m.Host == "" {
		return mail.Log{Logger: c.Log}
	}
	cfg := smtp.Config{Host: m.Host, Port: cmp.Or(m.Port, submissionPort)}
	if m.CredentialRef != "" {
		cfg.Credentials = c.mailLogin
	}
	return smtp.New(cfg)
}
