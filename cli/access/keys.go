package access

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// runtimeDir returns the folder of keys and certificates: the runtime directory of the user, which is in memory and
// ends with the last session, or the cache directory.
func runtimeDir(env func(string) string) (string, error) {
	if dir := env("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "gpuaas", "ssh"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a folder for the key: %w", err)
	}
	return filepath.Join(dir, "gpuaas", "ssh"), nil
}

// prepare makes a certificate, and the key of the allocation if it does not exist.
func (t *target) prepare(ctx context.Context, direct bool) error {
	base, err := runtimeDir(t.console.Env)
	if err != nil {
		return err
	}
	t.direct, t.dir = direct, filepath.Join(base, t.allocation.Id.String())
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return fmt.Errorf("creating a folder for the key: %w", err)
	}
	public, err := ownKey(filepath.Join(t.dir, "key"))
	if err != nil {
		return err
	}
	made, err := client.Change[oapi.SshCertificate](ctx, t.client, func(ctx context.Context, once oapi.RequestEditorFn) (*http.Response, error) {
		return t.client.CreateSshCertificate(ctx, t.allocation.Id, nil, oapi.SshCertificateRequest{PublicKey: public}, t.client.InProject, once)
	})
	if err != nil {
		return err
	}
	t.certificate = made.Value
	if direct && made.Value.Simulated {
		return &output.CommandError{
			Message: t.allocation.Name + " is on a simulated node, which has no address", Code: output.CodeSimulated,
			Try: "gpuaas ssh " + t.allocation.Name, Correlation: t.client.Correlation, Exit: output.ExitFailure,
		}
	}
	if direct && made.Value.Via != oapi.SshCertificateViaDirect {
		return &output.CommandError{
			Message: t.allocation.Name + " accepts no direct logins: the policy terminal.direct_login is denied", Code: string(errs.PolicyDenied),
			Try: "gpuaas ssh " + t.allocation.Name, Correlation: t.client.Correlation, Exit: output.ExitFailure,
		}
	}
	if err := t.writeHostKeys(); err != nil {
		return err
	}
	return durable.Write(filepath.Join(t.dir, "key-cert.pub"), []byte(made.Value.Certificate+"\n"), 0o600)
}

// writeHostKeys writes the host keys that the node has reported, so that no user has to confirm one.
func (t *target) writeHostKeys() error {
	if t.certificate.HostKeys == nil {
		return t.noHostKey()
	}
	var lines strings.Builder
	for _, key := range *t.certificate.HostKeys {
		lines.WriteString(t.host() + " " + key + "\n")
	}
	return durable.Write(filepath.Join(t.dir, "known_hosts"), []byte(lines.String()), 0o600)
}

func (t *target) noHostKey() error {
	return errs.New(errs.Unavailable, "the node of %s has reported no SSH host key", t.allocation.Name).Try("repeat it after its next report")
}

// ownKey returns the public line of the key at a path, and makes the key if it does not exist.
func ownKey(path string) (public string, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		if signer, err := ssh.ParsePrivateKey(text); err == nil {
			return lineOf(signer.PublicKey()), nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the key: %w", err)
	}
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "gpuaas")
	if err != nil {
		return "", fmt.Errorf("encoding the key: %w", err)
	}
	if err := durable.Write(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return "", err
	}
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("encoding the key: %w", err)
	}
	return lineOf(key), nil
}

func lineOf(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}
