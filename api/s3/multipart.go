package s3

import (
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/patience"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// ofUpload calls an operation of an upload in parts.
func (c *call) ofUpload(q url.Values) error {
	if c.r.Method != http.MethodGet {
		if err := c.may("uploadStorage", true); err != nil {
			return err
		}
	}
	if q.Has("uploads") {
		if c.r.Method != http.MethodPost {
			return methodNotAllowed()
		}
		return c.createUpload()
	}
	u, err := c.upload(q.Get("uploadId"))
	if err != nil {
		return err
	}
	switch c.r.Method {
	case http.MethodGet:
		return c.listParts(u, q)
	case http.MethodPut:
		return c.uploadPart(u, q)
	case http.MethodPost:
		return c.completeUpload(u)
	case http.MethodDelete:
		return c.abortUpload(u)
	}
	return methodNotAllowed()
}

func noSuchUpload() *fault.Error {
	return fault.New(fault.NoSuchUpload, "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.")
}

// upload returns the upload of a request. One of another key does not exist.
func (c *call) upload(text string) (storage.Upload, error) {
	p, _, err := c.path(c.key)
	if err != nil {
		return storage.Upload{}, err
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return storage.Upload{}, noSuchUpload().Because(err)
	}
	u, err := c.Storage.UploadOf(c.ctx(), c.scope(), id)
	if errs.CodeOf(err) == errs.StorageObjectNotFound || err == nil && u.Path.String() != p.String() {
		return u, noSuchUpload().Because(err)
	}
	return u, err
}

type initiated struct {
	XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
	NS       string   `xml:"xmlns,attr"`
	Bucket   string
	Key      string
	UploadID string `xml:"UploadId"`
}

func (c *call) createUpload() error {
	p, folder, err := c.path(c.key)
	switch {
	case err != nil:
		return err
	case folder:
		return fault.New(fault.InvalidArgument, "A key that ends with a slash is a folder and has no bytes.")
	}
	m, err := metadataOf(c.r.Header)
	if err != nil {
		return err
	}
	u, err := c.Storage.BeginUpload(c.ctx(), c.scope(), storage.NewUpload{Path: p, MediaType: mediaType(c.r.Header.Get("Content-Type")), Metadata: m, Size: -1})
	if err != nil {
		return err
	}
	return c.reply(initiated{NS: namespace, Bucket: c.bucket, Key: c.key, UploadID: u.ID.String()})
}

// partETag is opaque to clients, like etagOf.
func partETag(p storage.Part) string { return `"` + strings.Trim(p.ETag, `"`) + etagSuffix }

type copyPartResult struct {
	XMLName      xml.Name `xml:"CopyPartResult"`
	NS           string   `xml:"xmlns,attr"`
	LastModified string
	ETag         string
}

func (c *call) uploadPart(u storage.Upload, q url.Values) error {
	number, err := strconv.Atoi(q.Get("partNumber"))
	if err != nil || number < 1 || number > blob.MaxParts {
		return fault.New(fault.InvalidArgument, "Part number must be an integer between 1 and %d, inclusive", blob.MaxParts)
	}
	if c.r.Header.Get("X-Amz-Copy-Source") != "" {
		return c.copyPart(u, number)
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	if body.Size == 0 {
		if err := drain(body); err != nil {
			return err
		}
	}
	p, err := c.Storage.PutPart(c.ctx(), c.scope(), u.ID, number, body, body.Size, body.SHA256)
	if err != nil {
		return uploadFault(err, fault.NoSuchUpload)
	}
	c.w.Header().Set("ETag", partETag(p))
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// copyPart makes a range of a file a part.
func (c *call) copyPart(u storage.Upload, number int) error {
	if err := c.may("downloadStorage", false); err != nil {
		return err
	}
	_, o, err := c.source()
	switch {
	case err != nil:
		return err
	case o.Type == storage.Folder:
		return fault.New(fault.InvalidArgument, "A folder has no bytes that a part can have.")
	}
	first, size, err := rangeOf(c.r.Header.Get("X-Amz-Copy-Source-Range"), o.Size)
	if err != nil {
		return err
	}
	content := c.Storage.OpenObject(c.ctx(), o)
	defer content.Close() //nolint:errcheck // it was read
	if _, err := content.Seek(first, 0); err != nil {
		return err
	}
	part, err := c.Storage.PutPart(c.ctx(), c.scope(), u.ID, number, &steady{patience.Deadlines{Control: http.NewResponseController(c.w), Clock: c.Clock}, content, size}, size, nil)
	if err != nil {
		return uploadFault(err, fault.NoSuchUpload)
	}
	return c.reply(copyPartResult{NS: namespace, LastModified: stamp(part.StoredAt), ETag: partETag(part)})
}

// rangeOf reads the range of a copy, which has both ends.
func rangeOf(text string, size int64) (first, length int64, err error) {
	if text == "" {
		return 0, size, nil
	}
	from, to, found := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
	first, err = strconv.ParseInt(from, 10, 64)
	last, err2 := strconv.ParseInt(to, 10, 64)
	if !found || errors.Join(err, err2) != nil || first < 0 || first > last || last >= size {
		return 0, 0, fault.New(fault.InvalidArgument, "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy")
	}
	return first, last - first + 1, nil
}

type completeRequest struct {
	XMLName xml.Name `xml:"CompleteMultipartUpload"`
	Parts   []struct {
		PartNumber int
		ETag       string
	} `xml:"Part"`
}

type completed struct {
	XMLName  xml.Name `xml:"CompleteMultipartUploadResult"`
	NS       string   `xml:"xmlns,attr"`
	Location string
	Bucket   string
	Key      string
	ETag     string
}

// completeWithin limits the completion of an upload.
const completeWithin = 10 * time.Minute

func (c *call) completeUpload(u storage.Upload) error {
	// A checksum here is that of the file and not of the XML. Each part was compared with its own.
	for name := range c.r.Header {
		if strings.HasPrefix(name, "X-Amz-Checksum-") {
			c.r.Header.Del(name)
		}
	}
	var wanted completeRequest
	if err := c.read(&wanted); err != nil {
		return err
	}
	condition, err := conditionOf(c.r.Header)
	if err != nil {
		return err
	}
	parts := make([]storage.Part, 0, len(wanted.Parts))
	last := 0
	for _, p := range wanted.Parts {
		if p.PartNumber <= last {
			return fault.New(fault.InvalidPartOrder, "The numbers of the parts must ascend.")
		}
		last = p.PartNumber
		parts = append(parts, storage.Part{Number: p.PartNumber, ETag: strings.Trim(ownETag(strings.TrimSpace(p.ETag)), `"`)})
	}
	if len(parts) == 0 {
		return fault.New(fault.MalformedXML, "You must specify at least one part")
	}
	_ = http.NewResponseController(c.w).SetWriteDeadline(c.Clock.Now().Add(completeWithin)) // an HTTP/1.0 writer has none
	o, _, err := c.Storage.CompleteUpload(c.ctx(), c.scope(), u.ID, storage.Completion{Parts: parts, If: condition})
	switch {
	case errs.CodeOf(err) == errs.ValidationError:
		return fault.New(fault.EntityTooSmall, "Your proposed upload is smaller than the minimum allowed object size.").Because(err)
	case err != nil:
		return uploadFault(err, fault.InvalidPart)
	}
	return c.reply(completed{NS: namespace, Location: "/" + c.bucket + "/" + c.key, Bucket: c.bucket, Key: c.key, ETag: etagOf(o)})
}

func (c *call) abortUpload(u storage.Upload) error {
	if err := c.Storage.AbortUpload(c.ctx(), c.scope(), u.ID); err != nil {
		return uploadFault(err, fault.NoSuchUpload)
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// uploadFault returns the error of an operation of an upload. A conflict has a code that depends on the operation.
func uploadFault(err error, conflict fault.Code) error {
	if e := new(fault.Error); errors.As(err, &e) {
		return e
	}
	switch errs.CodeOf(err) { //nolint:exhaustive // the others are those of every operation
	case errs.StorageObjectNotFound:
		return noSuchUpload().Because(err)
	case errs.Conflict:
		return fault.New(conflict, "%s", faultOf(err).Message).Because(err)
	}
	return err
}
