package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	gosmtp "github.com/emersion/go-smtp"

	"github.com/gpuaas/gpuaas/dev/mail"
	"github.com/gpuaas/gpuaas/platform/notification/smtp"
	"github.com/gpuaas/gpuaas/server"
)

// mailbox is the development mail server and the page with its e-mails.
type mailbox struct {
	mail.Server

	url   string
	smtp  *gosmtp.Server
	http  *http.Server
	ended chan struct{}
}

// startMail runs the mail server of a development profile that names one on loopback, and writes its port into the
// profile.
func (i *installation) startMail(ctx context.Context) error {
	p := &i.profile.Mail
	if !i.profile.Development || !smtp.Loopback(p.Host) || p.CredentialRef != "" {
		return nil
	}
	accept, err := server.Listen(ctx, net.JoinHostPort(p.Host, strconv.Itoa(p.Port)), true)
	if err != nil {
		return err
	}
	page, err := server.Listen(ctx, i.cfg.MailListen, true)
	if err != nil {
		return errors.Join(err, accept.Close())
	}
	if address, ok := accept.Addr().(*net.TCPAddr); ok {
		p.Port = address.Port
	}
	m := &mailbox{url: "http://" + page.Addr().String(), ended: make(chan struct{}, 2)}
	m.smtp = m.SMTP()
	m.http = &http.Server{Handler: m, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10}
	go i.serveMail(ctx, m, func() error { return m.smtp.Serve(accept) })
	go i.serveMail(ctx, m, func() error { return m.http.Serve(page) })
	i.mail = m
	return nil
}

func (i *installation) serveMail(ctx context.Context, m *mailbox, serve func() error) {
	if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, gosmtp.ErrServerClosed) {
		i.cfg.Log.ErrorContext(ctx, "the development mail server ended", "component", "up", "err", err)
	}
	m.ended <- struct{}{}
}

func (m *mailbox) stop(ctx context.Context) error {
	err := errors.Join(m.smtp.Close(), m.http.Shutdown(ctx))
	if err != nil {
		return fmt.Errorf("stopping the development mail server: %w", err)
	}
	<-m.ended
	<-m.ended
	return nil
}
