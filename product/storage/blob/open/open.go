// Package open opens the object store that the profile of an environment names, and tests it.
package open

import (
	"context"
	"net/url"
	"strings"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/secretref"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/blob/files"
	"github.com/gpuaas/gpuaas/product/storage/blob/s3"
)

// Config is the section storage of a profile, and what the server adds.
type Config struct {
	Storage     desired.Storage
	Dir         string // of the driver files, where the profile names none
	Credentials *secretref.Credentials
	Clock       clock.Clock
}

// Open fails where the configuration is wrong. It succeeds where an S3 service cannot be reached at the moment.
func Open(ctx context.Context, c Config) (blob.Store, error) {
	if c.Storage.Driver == desired.StorageS3 {
		return c.openS3(ctx)
	}
	dir := c.Storage.Path
	if dir == "" {
		dir = c.Dir
	}
	store, err := files.Open(dir, c.Clock)
	if err != nil {
		return nil, errs.Invalid("storage.path", "the folder of objects %s cannot be used", dir).Because(err).Try("create the folder with the rights of the server, or set storage.path")
	}
	return store, nil
}

func (c Config) openS3(ctx context.Context) (blob.Store, error) {
	p := c.Storage
	endpoint, err := url.Parse(p.Endpoint)
	switch {
	case err != nil || endpoint.Host == "" || endpoint.Scheme != "https" && endpoint.Scheme != "http":
		return nil, errs.Invalid("storage.endpoint", "%q is not the URL of an S3 service", p.Endpoint)
	case p.Bucket == "":
		return nil, errs.Invalid("storage.bucket", "is empty, and the driver is s3").Try("name the bucket of the objects")
	case p.SSE != "none" && p.SSE != s3.SSEAES256 && p.SSE != s3.SSEKMS && p.SSE != "":
		return nil, errs.Invalid("storage.sse", "%q is none of none, AES256, aws:kms", p.SSE)
	}
	if _, _, err := c.login(ctx); err != nil {
		return nil, err
	}
	config := s3.Config{
		Endpoint: endpoint, Region: p.Region, Bucket: p.Bucket, Prefix: p.Prefix, PathStyle: p.PathStyle, KMSKey: p.KMSKeyID, Unchecked: !p.Checksums,
		Credentials: c.login, Clock: c.Clock,
	}
	if p.SSE != "none" {
		config.SSE = p.SSE
	}
	return s3.New(config)
}

// login reads ACCESSKEY:SECRETKEY. The keys are sent to no one, but the owner of the credential lists the address that
// requests may be signed for.
func (c Config) login(ctx context.Context) (access, secret string, err error) {
	text, err := c.Credentials.Resolve(ctx, c.Storage.CredentialsRef, c.Storage.Endpoint)
	if err != nil {
		return "", "", err
	}
	access, secret, both := strings.Cut(string(text), ":")
	if !both || access == "" || secret == "" {
		return "", "", errs.Invalid("storage.credentialsRef", "%s does not contain ACCESSKEY:SECRETKEY", c.Storage.CredentialsRef)
	}
	return access, secret, nil
}
