package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hostkeys"
)

// connectWithin limits the login at the node.
const connectWithin = 30 * time.Second

// connect logs in with the key and the certificate of the allocation. reason returns why the connection has ended.
func (t *target) connect(ctx context.Context) (_ *ssh.Client, reason func() error, err error) {
	config, err := t.config()
	if err != nil {
		return nil, nil, err
	}
	socket, err := dial(ctx, t.client, t.allocation.Id, oapi.TerminalTokenRequest{Purpose: oapi.TerminalTokenRequestPurposeSsh}, sshProtocol)
	if err != nil {
		return nil, nil, err
	}
	near, far := net.Pipe()
	end := make(chan error, 1)
	go func() { _ = copyInput(ctx, socket, far) }()
	go func() {
		end <- copyOutput(ctx, far, socket)
		_, _, _ = far.Close(), near.Close(), socket.CloseNow()
	}()
	late := time.AfterFunc(connectWithin, func() { _ = near.Close() })
	conn, channels, requests, err := ssh.NewClientConn(near, t.host(), config)
	if late.Stop(); err != nil {
		_ = near.Close()
		_ = socket.CloseNow()
		if known, ok := errors.AsType[*errs.Error](err); ok {
			return nil, nil, known
		}
		return nil, nil, &output.CommandError{Message: "the node rejected the login: " + err.Error(), Code: string(errs.Unavailable), Try: "gpuaas ssh " + t.allocation.Name, Exit: output.ExitFailure}
	}
	return ssh.NewClient(conn, channels, requests), func() error { return <-end }, nil
}

// config accepts only the host keys that the node has reported.
func (t *target) config() (*ssh.ClientConfig, error) {
	text, err := os.ReadFile(filepath.Join(t.dir, "key"))
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	line, _, _, _, err := ssh.ParseAuthorizedKey([]byte(t.certificate.Certificate))
	certificate, signed := line.(*ssh.Certificate)
	if err != nil || !signed {
		return nil, errs.New(errs.Internal, "the server has sent no certificate")
	}
	signer, err := ssh.NewCertSigner(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("using the certificate: %w", err)
	}
	reported := hostkeys.Parse(output.ValueOrZero(t.certificate.HostKeys))
	if len(reported) == 0 {
		return nil, t.noHostKey()
	}
	return &ssh.ClientConfig{
		User: t.certificate.Login, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, ClientVersion: "SSH-2.0-gpuaas", HostKeyAlgorithms: reported.Algorithms(),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if !reported.Has(key) {
				return errs.New(errs.Unavailable, "the node presents the SSH host key %s, which it has not reported", ssh.FingerprintSHA256(key)).Try("report it to an operator")
			}
			return nil
		},
	}, nil
}
