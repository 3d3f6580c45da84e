// Package access measures terminals: the same shell on a simulated node through the terminal server, and by a direct SSH client.
package access

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/e2e/bench/install"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// cipher is preferred by the terminal server, too.
const cipher = "aes128-gcm@openssh.com"

// rig is an installation with an active allocation.
type rig struct {
	server     *install.Server
	key        string // the API key
	allocation struct {
		ID string `json:"id"`
	}
	address string // of the SSH server of the node
	client  *ssh.ClientConfig
	files   string // path of the private key; the certificate is next to it
}

func start(ctx context.Context, l *lab.Lab, name string) (*rig, error) {
	server, err := install.Start(ctx, l, name)
	if err != nil {
		return nil, err
	}
	r := &rig{server: server, files: filepath.Join(l.Dir, name+"-key")}
	if err := r.prepare(ctx); err != nil {
		server.Stop()
		return nil, err
	}
	return r, nil
}

func (r *rig) prepare(ctx context.Context) error {
	secret, err := r.server.Output(ctx, "api-key", "create", "bench")
	if err != nil {
		return err
	}
	r.key = strings.TrimSpace(string(secret))
	if err := r.server.Run(ctx, "alloc", "create", "--sku", "h100-sxm", "--name", "bench", "--wait", "--timeout", "1m", "--yes"); err != nil {
		return err
	}
	text, err := r.server.Output(ctx, "alloc", "get", "bench", "-o", "json")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &r.allocation); err != nil {
		return fmt.Errorf("reading the allocation: %w", err)
	}
	dir, err := r.server.AgentDir(ctx, r.allocation.ID)
	if err != nil {
		return err
	}
	address, err := os.ReadFile(sim.LoginFile(dir))
	if err != nil {
		return fmt.Errorf("reading the address of the node: %w", err)
	}
	r.address = strings.TrimSpace(string(address))
	return r.logIn(ctx)
}

// logIn makes a key and gets a certificate for it.
func (r *rig) logIn(ctx context.Context) error {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	var made struct {
		Certificate string `json:"certificate"`
		Login       string `json:"login"`
	}
	body := map[string]string{"public_key": strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))}
	if err := r.post(ctx, "ssh-certificate", body, &made); err != nil {
		return err
	}
	parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(made.Certificate)) //nolint:dogsled // the other values are options
	if err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	login, err := ssh.NewCertSigner(parsed.(*ssh.Certificate), signer) //nolint:forcetypeassert // it is a certificate
	if err != nil {
		return fmt.Errorf("using the certificate: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return fmt.Errorf("encoding a key: %w", err)
	}
	for path, text := range map[string][]byte{r.files: pemOf(block), r.files + "-cert.pub": []byte(made.Certificate + "\n")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return fmt.Errorf("writing a key: %w", err)
		}
	}
	r.client = &ssh.ClientConfig{
		Config: ssh.Config{Ciphers: []string{cipher}}, User: made.Login, Auth: []ssh.AuthMethod{ssh.PublicKeys(login)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: lab.Patience, //nolint:gosec // the node of this bench
	}
	return nil
}

// post changes something of the allocation.
func (r *rig) post(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	return r.send(ctx, http.MethodPost, "/allocations/"+r.allocation.ID+"/"+path, text, into)
}

func (r *rig) send(ctx context.Context, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, r.server.URL+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+r.key)
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("sending a request: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it is read
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return fmt.Errorf("reading a response: %w", err)
	case response.StatusCode >= http.StatusMultipleChoices:
		return fmt.Errorf("%s: %s", response.Status, text)
	case into == nil:
		return nil
	}
	return json.Unmarshal(text, into)
}

// terminal opens a terminal through the terminal server.
func (r *rig) terminal(ctx context.Context) (*terminal, error) {
	var token struct {
		URL   string `json:"url"`
		Token string `json:"token"`
	}
	if err := r.post(ctx, "terminal-token", map[string]string{"purpose": "shell"}, &token); err != nil {
		return nil, err
	}
	conn, _, err := websocket.Dial(ctx, token.URL, &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		Subprotocols: []string{"gpuaas.terminal.v1"}, HTTPHeader: http.Header{"Authorization": {"Bearer " + token.Token}},
	})
	if err != nil {
		return nil, fmt.Errorf("opening a terminal: %w", err)
	}
	conn.SetReadLimit(-1)
	return newTerminal(ctx, conn), nil
}

// direct opens the same shell with an SSH client.
func (r *rig) direct() (*shell, error) { return dialShell(r.address, r.client) }

func dialShell(address string, config *ssh.ClientConfig) (*shell, error) {
	client, err := ssh.Dial("tcp", address, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the node: %w", err)
	}
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
	if err := session.RequestPty("xterm-256color", 24, 80, ssh.TerminalModes{}); err != nil {
		return nil, fmt.Errorf("requesting a terminal: %w", err)
	}
	if err := session.Shell(); err != nil {
		return nil, fmt.Errorf("starting the shell: %w", err)
	}
	return &shell{out, in, client.Close, nil}, nil
}

// within ends a measurement that waits for a shell that prints nothing.
const within = 2 * time.Minute
