package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// overSSH runs git-upload-pack on the server. It ignores the SSH configuration and agent of the
// local user.
func (r Remote) overSSH(ctx context.Context, u *url.URL) (Line, error) {
	config, address, err := r.sshConfig(u)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, address, r.AllowPrivate)
	if err != nil {
		return nil, err
	}
	// The library's handshakes and reads know no context.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	l, err := handshake(conn, address, config, u)
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, errors.Join(ctx.Err(), err)
	}
	hangUp := l.close
	l.close = func() error {
		stop()
		return errors.Join(hangUp(), conn.Close())
	}
	return l, nil
}

func handshake(conn net.Conn, address string, config *ssh.ClientConfig, u *url.URL) (*pipeLine, error) {
	c, chans, reqs, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		return nil, sshError(u.Hostname(), err)
	}
	client := ssh.NewClient(c, chans, reqs)
	session, err := client.NewSession()
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	in, err := session.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	if err := session.Start("git-upload-pack " + quote(sshPath(u))); err != nil {
		return nil, fmt.Errorf("starting git-upload-pack on the server: %w", err)
	}
	return &pipeLine{in, out, func() error { _ = client.Close(); return nil }}, nil
}

// Relative marks a path relative to the home directory on the server.
const Relative = "/:"

// sshPath returns the path in the syntax of git-upload-pack: user@host:path is relative to the
// user's home directory, and so is ssh://host/~/path.
func sshPath(u *url.URL) string {
	if rest, ok := strings.CutPrefix(u.Path, Relative); ok {
		return rest
	}
	if rest, ok := strings.CutPrefix(u.Path, "/~"); ok {
		return "~" + rest
	}
	return u.Path
}

// quote quotes a path for the shell on the server. Everything between single quotes is literal,
// except a single quote and, in some shells, an exclamation mark.
func quote(path string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
}

func sshError(host string, err error) error {
	var unknown *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case errors.As(err, &unknown), errors.As(err, &revoked):
		return errs.New(errs.Unavailable, "the Git server %s presents a key that knownHosts does not contain", host).
			Try("compare the key with what the server's operator publishes, and change knownHosts").Because(err)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return errs.New(errs.NotFound, "the Git server %s rejects the key", host).Try("let the key read the repository").Because(err)
	}
	return fmt.Errorf("greeting %s: %w", host, err)
}

func (r Remote) sshConfig(u *url.URL) (*ssh.ClientConfig, string, error) {
	auth := r.Auth
	if len(bytes.TrimSpace(auth.KnownHosts)) == 0 {
		return nil, "", errs.Invalid("auth", "a repository over ssh needs the server's key").Try("name known_hosts lines in auth.knownHostsRef")
	}
	signer, err := ssh.ParsePrivateKey(auth.SSHKey)
	if err != nil {
		return nil, "", errs.Invalid("auth", "the ssh key cannot be read").Try("name a private key without a passphrase in auth.sshKeyRef")
	}
	known, err := knownHosts(auth.KnownHosts)
	if err != nil {
		return nil, "", err
	}
	port := u.Port()
	if port == "" {
		port = "22"
	}
	user := u.User.Username()
	if user == "" {
		user = "git"
	}
	address := net.JoinHostPort(u.Hostname(), port)
	return &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, Timeout: connecting,
		HostKeyCallback: known, HostKeyAlgorithms: algorithms(known, address),
	}, address, nil
}

// knownHosts reads the lines of a known_hosts file, which the library does from
// files only.
func knownHosts(lines []byte) (ssh.HostKeyCallback, error) {
	f, err := os.CreateTemp("", "gpuaas-known-hosts-")
	if err != nil {
		return nil, fmt.Errorf("reading knownHosts: %w", err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // holds public keys only
	_, err = f.Write(lines)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("reading knownHosts: %w", err)
	}
	known, err := knownhosts.New(f.Name())
	if err != nil {
		return nil, errs.Invalid("auth", "the known_hosts lines cannot be read").Because(err)
	}
	return known, nil
}

// algorithms returns the key types that are known for the server. Without it, the server would
// choose another type of key, which knownHosts does not contain.
func algorithms(known ssh.HostKeyCallback, address string) []string {
	var of *knownhosts.KeyError
	if err := known(address, &net.TCPAddr{}, noKey{}); !errors.As(err, &of) {
		return nil
	}
	var list []string
	for _, k := range of.Want {
		switch kind := k.Key.Type(); kind {
		case ssh.KeyAlgoRSA:
			list = append(list, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		default:
			list = append(list, kind)
		}
	}
	return list
}

// noKey matches no server. Its use makes the library return the keys that it knows for the server.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return nil }
func (noKey) Verify([]byte, *ssh.Signature) error { return io.ErrUnexpectedEOF }
