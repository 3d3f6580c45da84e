package backup

import (
	"cmp"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/store"
	"github.com/gpuaas/gpuaas/platform/backup/store/folder"
	"github.com/gpuaas/gpuaas/platform/backup/store/s3"
)

// The credentials of an S3 provider, as its own tools read them.
const (
	accessVariable = "AWS_ACCESS_KEY_ID"
	secretVariable = "AWS_SECRET_ACCESS_KEY"
)

// service opens the target.
func (f *flags) service(a *output.Console) (*backup.Service, error) {
	target := cmp.Or(f.target, a.Env(targetVariable))
	opened, err := openTarget(a, target)
	if err != nil {
		return nil, err
	}
	return &backup.Service{Store: opened, Clock: a.Clock, Log: slog.New(slog.DiscardHandler)}, nil
}

func openTarget(a *output.Console, target string) (store.Store, error) {
	u, err := url.Parse(target)
	switch {
	case err == nil && u.Scheme == "file" && u.Host == "" && filepath.IsAbs(u.Path):
		return folder.Open(u.Path)
	case err == nil && u.Scheme == "s3" && u.Host != "" && u.User == nil:
		return openBucket(a, u)
	}
	return nil, errs.Invalid("target", "%q is not an address of backups", target).Try("--target file:///PATH or s3://BUCKET/PREFIX?endpoint=URL, or set %s", targetVariable)
}

// openBucket reads s3://BUCKET/PREFIX?endpoint=URL&region=REGION&path-style=true.
func openBucket(a *output.Console, u *url.URL) (store.Store, error) {
	q := u.Query()
	for name := range q {
		if name != "endpoint" && name != "region" && name != "path-style" {
			return nil, errs.Invalid("target", "has the unknown parameter %q", name).Try("the parameters are endpoint, region and path-style")
		}
	}
	endpoint, err := url.Parse(cmp.Or(q.Get("endpoint"), "https://s3.amazonaws.com"))
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "https" && endpoint.Scheme != "http" {
		return nil, errs.Invalid("target", "the endpoint %q is not the URL of an S3 service", q.Get("endpoint"))
	}
	access, err := secretref.FromEnv(a.Env, accessVariable)
	if err != nil {
		return nil, err
	}
	secret, err := secretref.FromEnv(a.Env, secretVariable)
	if err != nil {
		return nil, err
	}
	if access == "" || secret == "" {
		return nil, errs.Invalid("target", "%s or %s is not set", accessVariable, secretVariable).Try("set both, or the name of a file in the variable with _FILE at its end")
	}
	return s3.New(s3.Config{
		Endpoint: endpoint, Region: q.Get("region"), Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), PathStyle: q.Get("path-style") == "true", Access: access, Secret: secret,
	})
}
