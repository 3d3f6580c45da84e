package backup

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup/store/storetest"
	"github.com/gpuaas/gpuaas/product/storage/blob/s3/s3test"
)

// TestABucketIsATarget runs the contract of the adapters on a real S3 server.
func TestABucketIsATarget(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t, false)
	env := map[string]string{accessVariable: server.Access, secretVariable: server.Secret}
	a := &output.Console{Env: func(name string) string { return env[name] }}
	target := fmt.Sprintf("s3://%s/some/prefix?endpoint=%s&region=%s&path-style=true", server.Bucket, url.QueryEscape(server.URL.String()), server.Region)
	s, err := openTarget(a, target)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Contract(t, s)
	out, err := run(t, map[string]string{accessVariable: server.Access, secretVariable: server.Secret}, "list", "--target", target, "--key", filepath.Join(keygen(t), serverName))
	if err != nil || !strings.Contains(out, "No results") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestBucketsAreValidated(t *testing.T) {
	t.Parallel()
	env := map[string]string{accessVariable: "a", secretVariable: "s"}
	a := &output.Console{Env: func(name string) string { return env[name] }}
	for target, want := range map[string]string{
		"s3://":                              "is not an address",
		"s3://user:secret@bucket":            "is not an address",
		"s3://bucket?region=a&zone=b":        `unknown parameter "zone"`,
		"s3://bucket?endpoint=server":        "is not the URL",
		"s3://bucket?endpoint=ftp://server/": "is not the URL",
	} {
		if _, err := openTarget(a, target); errs.CodeOf(err) != errs.ValidationError || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", target, err)
		}
	}
	env[secretVariable] = ""
	if _, err := openTarget(a, "s3://bucket"); errs.CodeOf(err) != errs.ValidationError || !strings.Contains(err.Error(), secretVariable) {
		t.Errorf("without a secret: %v", err)
	}
}
