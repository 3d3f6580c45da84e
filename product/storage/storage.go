// Package storage stores the files of projects. Rows name the files and folders; the object store contains their bytes as
// backend objects, which have an id and no path. A rename changes one row, and a copy adds one. Every entry point calls this
// package, so that names, quotas and rights are the same in all of them.
package storage

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// Type distinguishes files and folders.
type Type string

// The types of stored objects.
const (
	File   Type = "file"
	Folder Type = "folder"
)

// Limits are values of policies.
type Limits struct {
	ProjectBytes, TenantBytes     int64 // committed and reserved
	ProjectObjects, TenantObjects int64
	ObjectBytes                   int64 // of one file
	Trash                         time.Duration
	UploadLife                    time.Duration // of an upload in parts
	SignedURL                     time.Duration // the life of a signed URL
}

// Service is used by the role api, and by the role work for the cleanup job.
type Service struct {
	DB       pg.Pool
	Identity *identity.Service
	Blobs    blob.Store
	Naming   ids.Naming
	Clock    clock.Clock
	Limits   func(ids.Tenant, ids.Project) Limits
	// PublicURL returns the address under which clients reach the API.
	PublicURL func() string
}

// Scope is the project whose files a request uses, and the cause of what it does.
type Scope struct {
	Tenant  ids.Tenant
	Project ids.Project
	By      audit.By
}

// ScopeOf returns the project of a request.
func ScopeOf(c identity.Caller) Scope { return Scope{c.Tenant, c.Project, c.Cause()} }

// Metadata are values that a client has stored with a file or folder, by lower-case name. The platform does not read them.
type Metadata map[string]string

// orEmpty returns metadata that is not null in SQL.
func (m Metadata) orEmpty() Metadata {
	if m == nil {
		return Metadata{}
	}
	return m
}

// Object is a row of storage_objects.
type Object struct {
	ID        uuid.UUID
	Parent    uuid.UUID // zero: the outermost folder of the project
	Name      string
	Type      Type
	Size      int64
	Key       uuid.UUID // of the backend object; zero for a folder
	SHA256    []byte    // nil: not known
	MediaType string
	Metadata  Metadata
	CreatedBy string
	CreatedAt time.Time
	UpdatedAt time.Time
	// Of a deleted object.
	DeletedAt, PurgeAt *time.Time
	DeletedPath        string

	// Path is that of the request which read the object.
	Path objectpath.Path

	deepest, longest int
}

// ETag identifies the bytes of a file, and a folder. A copy has the ETag of its original.
func (o Object) ETag() string {
	id := o.Key
	if o.Type == Folder {
		id = o.ID
	}
	return `"` + strings.ReplaceAll(id.String(), "-", "") + `"`
}

// URN returns the name of an object.
func (s *Service) URN(at Scope, id uuid.UUID) string {
	return s.Naming.Name(at.Tenant.String(), at.Project.String(), "storage-object", id.String()).String()
}

// Condition is a precondition on the object of a path. The zero value is always true.
type Condition struct {
	Absent bool   // If-None-Match: *
	ETag   string // If-Match; "*" matches any object
}

func (c Condition) check(found Object, exists bool) error {
	switch {
	case c.Absent && exists:
		return errs.New(errs.VersionMismatch, "there is a %s at %s", found.Type, found.Path).At("If-None-Match").With("etag", found.ETag())
	case c.ETag == "" || exists && (c.ETag == "*" || c.ETag == found.ETag()):
		return nil
	case !exists:
		return errs.New(errs.VersionMismatch, "there is no such stored object").At("If-Match")
	}
	return errs.New(errs.VersionMismatch, "the stored object at %s has changed", found.Path).At("If-Match").Try("read it again").With("etag", found.ETag())
}

func notFound(p objectpath.Path) error {
	return errs.New(errs.StorageObjectNotFound, "the project has no stored object at %q", p)
}

// Unavailable gives the failures of the object store their codes.
func Unavailable(err error) error {
	switch {
	case err == nil || errs.CodeOf(err) != errs.Internal:
		return err
	case errors.Is(err, blob.ErrFull):
		return errs.New(errs.Unavailable, "the object store is full").Try("contact an operator").Because(err)
	}
	return errs.New(errs.Unavailable, "the object store is not available").Try("repeat it in a moment").Because(err)
}

func wrap(err error, doing string, about any) error {
	if err == nil || errs.CodeOf(err) != errs.Internal {
		return err
	}
	return fmt.Errorf("%s %v: %w", doing, about, err)
}
