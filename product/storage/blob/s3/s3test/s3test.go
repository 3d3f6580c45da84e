// Package s3test starts a real S3 server for tests: versitygw over a temporary folder, on a free port of loopback.
package s3test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Server is a running server with one bucket.
type Server struct {
	URL            *url.URL
	Access, Secret string
	Bucket, Region string
	Dir            string         // its objects, as files
	Roots          *x509.CertPool // of a server with TLS
}

// binaryName is set by make test-s3. Without it, the server is built into bin, and a test is skipped where that fails.
const binaryName = "GPUAAS_TEST_S3"

// startWithin includes a busy computer.
const startWithin = time.Minute

// Start starts a server that ends with the test.
func Start(t testing.TB, withTLS bool) *Server {
	t.Helper()
	s := &Server{Access: "access", Secret: uuid.NewString(), Bucket: "objects", Region: "test-1", Dir: t.TempDir()}
	arguments := []string{"--quiet", "--health", "/health", "--region", s.Region, "--access", s.Access, "--secret", s.Secret}
	scheme := "http"
	if withTLS {
		scheme = "https"
		arguments = append(arguments, s.certificate(t)...)
	}
	address := freeAddress(t)
	s.URL = &url.URL{Scheme: scheme, Host: address}
	arguments = append(arguments, "--port", address, "posix", s.Dir)

	var output bytes.Buffer
	server := exec.CommandContext(context.WithoutCancel(t.Context()), binary(t), arguments...) //nolint:gosec // the tool of this repository
	server.Stdout, server.Stderr = &output, &output
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Logf("the S3 server: %s", output.String())
		}
	})
	s.await(t)
	if err := s.client(t).MakeBucket(t.Context(), s.Bucket, minio.MakeBucketOptions{Region: s.Region}); err != nil {
		t.Fatalf("making the bucket: %v", err)
	}
	return s
}

// Client returns a client that trusts the server.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.transport()} }

func (s *Server) transport() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // of the standard library
	if s.Roots != nil {
		transport.TLSClientConfig.RootCAs = s.Roots
	}
	return transport
}

func (s *Server) client(t testing.TB) *minio.Client {
	t.Helper()
	c, err := minio.New(s.URL.Host, &minio.Options{
		Creds: credentials.NewStaticV4(s.Access, s.Secret, ""), Secure: s.Roots != nil, Region: s.Region, Transport: s.transport(), BucketLookup: minio.BucketLookupPath,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// await waits until the server responds.
func (s *Server) await(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startWithin)
	defer cancel()
	client := s.Client()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL.JoinPath("health").String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("the S3 server does not respond")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // the server needs the port
	return l.Addr().String()
}

var versionLine = regexp.MustCompile(`github\.com/versity/versitygw v(\S+)`)

// binary returns the path of the server, and builds it if it is missing.
func binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(binaryName); path != "" {
		return path
	}
	root := repository(t)
	text, err := os.ReadFile(filepath.Join(root, "tools/versitygw/go.mod"))
	version := versionLine.FindSubmatch(text)
	if err != nil || version == nil {
		t.Fatalf("tools/versitygw/go.mod names no version: %v", err)
	}
	path := filepath.Join(root, "bin", "versitygw-"+string(version[1]))
	if err := build(t, root, path); err != nil {
		t.Skipf("the S3 server cannot be built here; make test-s3 builds it with a network: %v", err)
	}
	return path
}

// build builds the server once, also where several packages need it at the same time.
func build(t testing.TB, root, path string) error {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil { //nolint:gosec // in this repository
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // in this repository
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // it contains nothing
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil { //nolint:gosec // in this repository
		return nil
	}
	t.Logf("building %s, once (a minute)", path)
	command := exec.CommandContext(t.Context(), "go", "build", "-o", path, "github.com/versity/versitygw/cmd/versitygw") //nolint:gosec // as above
	command.Dir = filepath.Join(root, "tools/versitygw")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%w: %s", err, strings.TrimSpace(string(output))), os.RemoveAll(path)) //nolint:gosec // as above
	}
	return nil
}

// repository returns the folder of go.mod, above the package of the test.
func repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no folder above the test has a go.mod")
		}
	}
}

// certificate makes the flags of a server with TLS.
func (s *Server) certificate(t testing.TB) []string {
	t.Helper()
	own := httptest.NewTLSServer(nil) // has a certificate for loopback
	defer own.Close()
	s.Roots = x509.NewCertPool()
	s.Roots.AddCert(own.Certificate())
	key, err := x509.MarshalPKCS8PrivateKey(own.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	flags, dir := []string{}, t.TempDir()
	for flag, block := range map[string]*pem.Block{
		"cert": {Type: "CERTIFICATE", Bytes: own.Certificate().Raw}, "key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		path := filepath.Join(dir, flag)
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--"+flag, path)
	}
	return flags
}
