// Package client calls the node API: JSON over HTTP/1.1 and TLS 1.3. It has no state except connections,
// and the caller decides when to retry.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	// callWithin bounds every call but the long poll.
	callWithin = 15 * time.Second
	// pollSlack is the time that a poll may exceed its promised end before the connection counts as
	// dead.
	pollSlack = 15 * time.Second
	// maxReply is several times the size of the largest envelope in base64.
	maxReply = 1 << 20
)

// Client calls the API of one server as one node.
type Client struct {
	base string
	http *http.Client

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	cut   bool
}

// ProblemError is an error response of the node API.
type ProblemError struct {
	Status  int
	Problem protocol.Problem
}

func (e *ProblemError) Error() string {
	return fmt.Sprintf("%s: %s (HTTP %d, correlation %s)", e.Problem.Code, e.Problem.Message, e.Status, e.Problem.CorrelationID)
}

// CodeOf returns the code of an error response, or an empty string.
func CodeOf(err error) string {
	if p, ok := errors.AsType[*ProblemError](err); ok {
		return p.Problem.Code
	}
	return ""
}

// AckOf returns the signed part of the response to a stale report.
func AckOf(err error) protocol.Signed {
	if problem, ok := errors.AsType[*ProblemError](err); ok {
		return problem.Problem.Ack
	}
	return protocol.Signed{}
}

// New returns a client of the server at https://host:port.
func New(server string, config *tls.Config) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Host == "" || (u.Path != "" && u.Path != "/") {
		return nil, fmt.Errorf("%q is not the address of a node API: want https://host:port", server)
	}
	if config = config.Clone(); config.ClientSessionCache == nil {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1) // there is one server
	}
	config.ServerName = u.Hostname()
	c := &Client{base: "https://" + u.Host, conns: map[net.Conn]struct{}{}}
	dialer := &net.Dialer{Timeout: callWithin}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, callWithin)
				defer cancel()
				return pki.Connect(ctx, func(ctx context.Context) (net.Conn, error) { return c.dial(ctx, dialer, network, addr) }, config)
			},
			IdleConnTimeout:     2 * time.Minute, // longer than between two reports
			MaxIdleConnsPerHost: 2,               // one polls, one reports
			// A node sends and receives little; a thousand may share a process.
			ReadBufferSize: 2 << 10, WriteBufferSize: 2 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

var errCut = errors.New("the node is partitioned")

func (c *Client) dial(ctx context.Context, d *net.Dialer, network, addr string) (net.Conn, error) {
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.Join(errCut, conn.Close())
	}
	tracked := &trackedConn{Conn: conn, client: c}
	c.conns[tracked] = struct{}{}
	return tracked, nil
}

type trackedConn struct {
	net.Conn

	client *Client
}

func (t *trackedConn) Close() error {
	t.client.mu.Lock()
	delete(t.client.conns, t)
	t.client.mu.Unlock()
	return t.Conn.Close()
}

// Cut closes all connections and prevents new ones while off is true.
func (c *Client) Cut(off bool) {
	c.mu.Lock()
	c.cut = off
	var open []net.Conn
	for conn := range c.conns {
		if off {
			open = append(open, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close() // on purpose, and for good
	}
}

// Release closes what is not in use; a call in flight ends first.
func (c *Client) Release() { c.http.CloseIdleConnections() }

// Enrol trades a token for a certificate.
func (c *Client) Enrol(ctx context.Context, r protocol.EnrolRequest) (reply protocol.EnrolReply, err error) {
	err = c.call(ctx, callWithin, http.MethodPost, protocol.PathEnrol, r, &reply)
	return reply, err
}

// Renew requests the next certificate.
func (c *Client) Renew(ctx context.Context, node ids.Node, csr string) (reply protocol.EnrolReply, err error) {
	err = c.call(ctx, callWithin, http.MethodPost, fmt.Sprintf(protocol.PathRenew, node), protocol.RenewRequest{CSR: csr}, &reply)
	return reply, err
}

// Trust reads the present trust of the control plane.
func (c *Client) Trust(ctx context.Context) (trust protocol.Trust, err error) {
	err = c.call(ctx, callWithin, http.MethodGet, protocol.PathTrust, nil, &trust)
	return trust, err
}

// Wait polls for the next task and requests for streams. The delivery is empty if the poll ended without.
func (c *Client) Wait(ctx context.Context, node ids.Node) (d protocol.Delivery, err error) {
	err = c.call(ctx, protocol.WaitFor+pollSlack, http.MethodGet, fmt.Sprintf(protocol.PathWait, node), nil, &d)
	return d, err
}

// Result delivers the result of a task.
func (c *Client) Result(ctx context.Context, node ids.Node, r *protocol.Result) error {
	err := c.call(ctx, callWithin, http.MethodPost, fmt.Sprintf(protocol.PathResult, node, r.Task), r, nil)
	return err
}

// Step delivers a finished step.
func (c *Client) Step(ctx context.Context, node ids.Node, task ids.Task, p protocol.Progress) error {
	err := c.call(ctx, callWithin, http.MethodPost, fmt.Sprintf(protocol.PathStep, node, task), p, nil)
	return err
}

// Report delivers what the node sees of itself, and learns when to do so again.
func (c *Client) Report(ctx context.Context, node ids.Node, r protocol.Report) (protocol.ReportReply, error) {
	var reply protocol.ReportReply
	err := c.call(ctx, callWithin, http.MethodPut, fmt.Sprintf(protocol.PathReport, node), r, &reply)
	return reply, err
}

// StorageKey requests the access keys of the mounts of an allocation, or extends them.
func (c *Client) StorageKey(ctx context.Context, node ids.Node, allocation ids.Allocation) (keys protocol.MountKeys, err error) {
	err = c.call(ctx, callWithin, http.MethodPost, fmt.Sprintf(protocol.PathMounts, node, allocation), struct{}{}, &keys)
	return keys, err
}

func (c *Client) call(ctx context.Context, within time.Duration, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return fmt.Errorf("making request: %w", err)
	}
	request.Header.Set(protocol.CapabilityHeader, strconv.Itoa(protocol.Capability))
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("calling the node API: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return fmt.Errorf("reading the response of the node API: %w", err)
	}
	switch {
	case response.StatusCode >= http.StatusMultipleChoices:
		return problem(response.StatusCode, text)
	case response.StatusCode == http.StatusNoContent:
		return nil
	case into == nil: // an empty 200 of a server that gave up would acknowledge the call
		return fmt.Errorf("calling the node API: the response has status %d, expected %d", response.StatusCode, http.StatusNoContent)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading the response of the node API: %w", err)
	}
	return nil
}

func problem(status int, text []byte) error {
	e := &ProblemError{Status: status}
	if err := json.Unmarshal(text, &e.Problem); err != nil || e.Problem.Code == "" {
		e.Problem = protocol.Problem{Code: "unknown", Message: http.StatusText(status)}
	}
	return e
}
