package s3

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

const (
	// credentialLife is the time after which rotated credentials are in use.
	credentialLife = time.Minute
	// connectWithin limits the connection and the TLS handshake.
	connectWithin = 10 * time.Second
	// stalledAfter limits the time in which a connection transports no byte, and the wait for a response.
	stalledAfter = 2 * time.Minute
	// idleConns stay open for the next requests.
	idleConns = 64
)

// provider resolves the credentials again from time to time.
type provider struct {
	resolve func(context.Context) (access, secret string, err error)
	clock   clock.Clock
	until   time.Time
}

func (p *provider) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	ctx := context.Background() //nolint:forbidigo // Retrieve, the deprecated form, has no context
	if c != nil && c.Context != nil {
		ctx = c.Context
	}
	access, secret, err := p.resolve(ctx)
	if err != nil {
		return credentials.Value{}, err
	}
	p.until = p.clock.Now().Add(credentialLife)
	return credentials.Value{AccessKeyID: access, SecretAccessKey: secret, SignerType: credentials.SignatureV4}, nil
}

func (p *provider) Retrieve() (credentials.Value, error) { return p.RetrieveWithCredContext(nil) }

func (p *provider) IsExpired() bool { return !p.clock.Now().Before(p.until) }

// newTransport speaks HTTP/1.1, where each request has its own connection and its own deadline.
func newTransport(roots *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{Timeout: connectWithin, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return stallConn{conn}, nil
		},
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
		TLSHandshakeTimeout: connectWithin, ResponseHeaderTimeout: stalledAfter, IdleConnTimeout: time.Minute,
		MaxIdleConns: idleConns, MaxIdleConnsPerHost: idleConns, DisableCompression: true, WriteBufferSize: 128 << 10, ReadBufferSize: 128 << 10,
	}
}

// stallConn fails when no byte passes for stalledAfter. A write also extends the read of the response, which begins
// before the body is sent.
type stallConn struct{ net.Conn }

func (c stallConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(stalledAfter)); err != nil { //nolint:forbidigo // of a connection
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c stallConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(stalledAfter)); err != nil { //nolint:forbidigo // of a connection
		return 0, err
	}
	return c.Conn.Write(p)
}

// Codes of S3 and of its providers.
var (
	absentCodes = []string{minio.NoSuchKey, "NoSuchUpload"}
	partCodes   = []string{"InvalidPart", "InvalidPartOrder", "EntityTooSmall", "EntityTooLarge"}
	fullCodes   = []string{"InsufficientStorage", "InsufficientCapacity", "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"}
)

// errUnanswered is the error of a request without a response.
var errUnanswered = errors.New("the object store has not answered")

// mapped replaces an error of the provider by one of the port. The failure of the reader is the cause: it also breaks the
// request.
func mapped(ctx context.Context, err error, from *blob.Exact) error {
	if err == nil {
		return nil
	}
	var response minio.ErrorResponse
	of := errors.As(err, &response)
	switch {
	case from != nil && from.Err() != nil:
		return fmt.Errorf("reading the body of a request to the object store: %w", from.Err())
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case of && slices.Contains(absentCodes, response.Code):
		return blob.ErrNotFound
	case of && slices.Contains(partCodes, response.Code):
		return fmt.Errorf("%w: %s", blob.ErrPart, response.Message)
	case of && (slices.Contains(fullCodes, response.Code) || response.StatusCode == http.StatusInsufficientStorage):
		return fmt.Errorf("%w: %s", blob.ErrFull, response.Message)
	case of:
		return fmt.Errorf("the object store rejects the request with %s: %w", response.Code, err)
	}
	return fmt.Errorf("%w: %w", errUnanswered, err)
}
