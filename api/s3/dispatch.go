package s3

import (
	"net/http"
	"net/url"

	"github.com/gpuaas/gpuaas/api/s3/fault"
)

// unsupported lists the parameters that select an operation which the endpoint does not have.
var unsupported = []string{
	"accelerate", "acl", "analytics", "attributes", "cors", "encryption", "intelligent-tiering", "inventory", "legal-hold", "lifecycle", "logging", "metadataTable", "metrics",
	"notification", "object-lock", "ownershipControls", "policy", "policyStatus", "publicAccessBlock", "renameObject", "replication", "requestPayment", "restore", "retention",
	"select", "session", "tagging", "torrent", "versioning", "versions", "website",
}

// unsupportedHeaders lists the headers whose promise the endpoint would not fulfil: encryption, because whether the object store
// encrypts is no choice of a request, retention, redirects, and rights of others.
var unsupportedHeaders = []string{
	"X-Amz-Server-Side-Encryption", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", "X-Amz-Server-Side-Encryption-Context",
	"X-Amz-Server-Side-Encryption-Bucket-Key-Enabled", "X-Amz-Website-Redirect-Location",
	"X-Amz-Server-Side-Encryption-Customer-Algorithm", "X-Amz-Server-Side-Encryption-Customer-Key", "X-Amz-Copy-Source-Server-Side-Encryption-Customer-Algorithm",
	"X-Amz-Object-Lock-Mode", "X-Amz-Object-Lock-Retain-Until-Date", "X-Amz-Object-Lock-Legal-Hold", "X-Amz-Tagging",
	"X-Amz-Grant-Read", "X-Amz-Grant-Write", "X-Amz-Grant-Read-Acp", "X-Amz-Grant-Write-Acp", "X-Amz-Grant-Full-Control",
}

// Operations lists the operations of the API whose rights the requests of the endpoint need.
func Operations() []string {
	return []string{"listStorage", "statStorage", "downloadStorage", "uploadStorage", "createStorageFolder", "copyStorage", "deleteStorage"}
}

func notImplemented(what string) error {
	return fault.New(fault.NotImplemented, "A header or parameter you provided implies functionality that is not implemented: %s", what)
}

// dispatch calls the operation of a request.
func (c *call) dispatch() error {
	q := c.r.URL.Query()
	for _, name := range unsupported {
		if q.Has(name) {
			return notImplemented(name)
		}
	}
	hoisted(c.r.Header, q)
	if err := ineffective(c.r.Header); err != nil {
		return err
	}
	if id := q.Get("versionId"); id != "" && id != "null" {
		return notImplemented("versionId")
	}
	switch {
	case c.bucket == "":
		return c.service()
	case c.key == "":
		return c.ofBucket(q)
	}
	if q.Has("uploads") || q.Has("uploadId") {
		return c.ofUpload(q)
	}
	return c.ofObject()
}

func (c *call) service() error {
	if c.r.Method != http.MethodGet {
		return methodNotAllowed()
	}
	return c.listBuckets()
}

func methodNotAllowed() error {
	return fault.New(fault.MethodNotAllowed, "The specified method is not allowed against this resource.")
}

func (c *call) ofBucket(q url.Values) error {
	switch c.r.Method {
	case http.MethodHead:
		return c.headBucket()
	case http.MethodGet:
		switch {
		case q.Has("location"):
			return c.getBucketLocation()
		case q.Has("uploads"):
			return c.listUploads(q)
		case q.Get("list-type") == "2":
			return c.listObjectsV2(q)
		}
		return c.listObjects(q)
	case http.MethodPost:
		if q.Has("delete") {
			return c.deleteObjects()
		}
	case http.MethodPut:
		return fault.New(fault.BucketAlreadyExists, "Your previous request to create the named bucket succeeded and you already own it.")
	case http.MethodDelete:
		return notImplemented("a bucket is a project: delete the project")
	}
	return methodNotAllowed()
}

func (c *call) ofObject() error {
	switch c.r.Method {
	case http.MethodHead, http.MethodGet:
		return c.getObject()
	case http.MethodPut:
		if c.r.Header.Get("X-Amz-Copy-Source") != "" {
			return c.copyObject()
		}
		return c.putObject()
	case http.MethodDelete:
		return c.deleteObject()
	}
	return methodNotAllowed()
}
