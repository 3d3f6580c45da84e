package terminal

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/terminal"
)

// resizeEvery is the least time between two sizes that the node receives.
const resizeEvery = 50 * time.Millisecond

// dial connects to the node. The connection ends with the session.
func (x *session) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(x.ctx, connectWithin)
	defer cancel()
	conn, err := x.server.Dial(ctx, Target{Node: x.row.Node, Allocation: x.row.Allocation, Fence: x.row.Fence, Trace: x.trace})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(x.ctx, func() { _ = conn.Close() })
	return conn, nil
}

// failed ends a session that did not begin.
func (x *session) failed(err error) {
	x.server.Metrics.ConnectFailed(x.row.Purpose)
	text := "the node rejected the connection: " + err.Error()
	if e, ok := errors.AsType[*errs.Error](err); ok {
		text = e.Message
	}
	x.endWith(terminal.ConnectFailed, nil, printable(text))
}

func (x *session) connected() {
	x.server.Metrics.connects.WithLabelValues(string(x.row.Purpose), "connected").Inc()
	x.server.Metrics.opening.Observe(x.server.Clock.Now().Sub(x.begun).Seconds())
}

// maxText limits the text of a node that a client reads.
const maxText = 300

// printable bounds a text that a node may have written.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if r := []rune(text); len(r) > maxText {
		text = string(r[:maxText])
	}
	return text
}

// shell runs a login shell on the node.
func (x *session) shell() {
	conn, err := x.dial()
	if err != nil {
		x.failed(err)
		return
	}
	defer conn.Close() //nolint:errcheck // its end is the end of the session
	client, stored, err := x.login(conn)
	if err != nil {
		x.failed(err)
		return
	}
	defer client.Close() //nolint:errcheck // likewise
	if err := x.interact(client, stored); err != nil {
		x.failed(err)
	}
}

// login authenticates with a key that exists only in memory and only for this session. stored receives the result when the
// certificate and the host key are recorded.
func (x *session) login(conn net.Conn) (c *ssh.Client, stored <-chan error, err error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, nil, err
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(x.ctx, connectWithin)
	defer cancel()
	l, err := x.server.Sign(ctx, key.PublicKey(), x.row.Allocation, x.row.Principal.String()+"-session-"+x.row.ID.String(), x.server.LoginLife())
	if err != nil {
		return nil, nil, errs.New(errs.Unavailable, "no login certificate can be signed now").Because(err)
	}
	signer, err := certified(l.Certificate, key)
	if err != nil {
		return nil, nil, err
	}
	var hostKey string
	config := &ssh.ClientConfig{
		User: x.row.Login, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, ClientVersion: "SSH-2.0-gpuaas",
	}
	if err := checkHostKey(config, x.row.HostKeys, &hostKey); err != nil {
		return nil, nil, err
	}
	config.Ciphers = []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305, ssh.CipherAES128CTR, ssh.CipherAES256CTR}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // a node that does not respond
	client, channels, requests, err := ssh.NewClientConn(conn, x.row.Node.String(), config)
	if !stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		return nil, nil, err
	}
	return ssh.NewClient(client, channels, requests), x.present(l.Serial, hostKey), nil
}

// present records the certificate and the host key while the terminal is requested.
func (x *session) present(serial uint64, hostKey string) <-chan error {
	stored := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(x.ctx, connectWithin)
		defer cancel()
		stored <- x.server.Sessions.Presented(ctx, x.row.ID, serial, hostKey)
	}()
	return stored
}

// certified returns a signer with the certificate of its key.
func certified(line string, key ssh.Signer) (ssh.Signer, error) {
	parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return nil, fmt.Errorf("reading a login certificate: %w", err)
	}
	c, ok := parsed.(*ssh.Certificate)
	if !ok {
		return nil, errors.New("the authority has signed no certificate")
	}
	return ssh.NewCertSigner(c, key)
}

// language is a request for an environment variable.
var language = ssh.Marshal(struct{ Name, Value string }{"LANG", "C.UTF-8"})

// interact connects the shell with the clients until it ends. No shell begins before its login is recorded.
func (x *session) interact(client *ssh.Client, stored <-chan error) error {
	s, err := client.NewSession()
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it ends with its connection
	first := size{80, 24}
	select {
	case first = <-x.sizes:
	default:
	}
	line, err := x.startRecording(first)
	if err != nil {
		return err
	}
	if err := s.RequestPty("xterm-256color", first.rows, first.columns, ssh.TerminalModes{ssh.ECHO: 1, ssh.TTY_OP_ISPEED: 115200, ssh.TTY_OP_OSPEED: 115200}); err != nil {
		return err
	}
	if _, err := s.SendRequest("env", false, language); err != nil { // a node that does not accept it has its own
		return err
	}
	stdin, err := s.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := s.StdoutPipe()
	if err != nil {
		return err
	}
	if err := <-stored; err != nil {
		return err
	}
	if err := s.Shell(); err != nil {
		return err
	}
	x.begin(stdin)
	if line != "" {
		x.emit([]byte(line))
	}
	go x.resizes(s)
	x.pump(stdout)
	x.exited(s.Wait())
	return nil
}

// begin announces the session to its client and lets input pass.
func (x *session) begin(input io.Writer) {
	x.connected()
	x.out.Lock()
	if c := x.to; c != nil {
		x.announce(c, false)
	}
	x.out.Unlock()
	x.input = input
	close(x.ready)
}

// A message of output has at most mostOutput bytes. A terminal that prints less at a time needs no memory for them.
const leastOutput, mostOutput = 4 << 10, 32 << 10

func (x *session) pump(from io.Reader) {
	p := make([]byte, leastOutput)
	for {
		n, err := from.Read(p)
		if n > 0 {
			x.emit(p[:n])
		}
		if err != nil {
			return
		}
		switch {
		case n == leastOutput && len(p) == leastOutput:
			p = make([]byte, mostOutput)
		case n < leastOutput && len(p) == mostOutput:
			p = make([]byte, leastOutput)
		}
	}
}

// resizes sends sizes to the node, at most one each resizeEvery.
func (x *session) resizes(s *ssh.Session) {
	for {
		select {
		case <-x.ctx.Done():
			return
		case z := <-x.sizes:
			_ = s.WindowChange(z.rows, z.columns)
			if r := x.recorder.Load(); r != nil {
				r.Resize(z.columns, z.rows)
			}
		}
		select {
		case <-x.ctx.Done():
			return
		case <-time.After(resizeEvery):
		}
	}
}

// killed is the exit status of a program that a signal ended, as shells display it.
const killed = 128

func (x *session) exited(err error) {
	status := 0
	if e, ok := errors.AsType[*ssh.ExitError](err); ok {
		if status = e.ExitStatus(); status == 0 || e.Signal() != "" {
			status = killed
		}
	} else if err != nil {
		x.lost(terminal.StreamLost)
		return
	}
	if status == killed { // perhaps by the release
		if cause := x.cause(); cause != "" {
			x.end(cause)
		}
	}
	x.endWith(terminal.Exited, &status, "")
}
