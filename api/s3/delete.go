package s3

import (
	"encoding/xml"
	"net/http"
	"strings"

	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage"
)

// deleteObject deletes a file or an empty folder. It can be restored, as after a deletion by the REST API.
func (c *call) deleteObject() error {
	if err := c.may("deleteStorage", true); err != nil {
		return err
	}
	condition := storage.Condition{}
	if text := c.r.Header.Get("If-Match"); text != "" {
		condition.ETag = ownETag(text)
	}
	if err := c.remove(c.key, condition); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// remove deletes a key. In S3 a key that does not exist is no error, and a folder does not exist but for its marker: one that
// is not empty stays.
func (c *call) remove(key string, condition storage.Condition) error {
	p, folder, err := c.path(key)
	if err != nil {
		return err
	}
	o, err := c.Storage.Stat(c.ctx(), c.scope(), p)
	if errs.CodeOf(err) == errs.StorageObjectNotFound || err == nil && folder != (o.Type == storage.Folder) {
		if condition.ETag != "" {
			return fault.New(fault.NoSuchKey, "The specified key does not exist.")
		}
		return nil
	}
	if err == nil {
		_, err = c.Storage.Delete(c.ctx(), c.change(), storage.Removal{Path: p, If: condition})
	}
	if code := errs.CodeOf(err); code == errs.StorageObjectNotFound || folder && code == errs.Conflict {
		return nil
	}
	return err
}

type deleteRequest struct {
	XMLName xml.Name `xml:"Delete"`
	Quiet   bool
	Objects []struct {
		Key       string
		VersionID string `xml:"VersionId"`
		ETag      string
	} `xml:"Object"`
}

type deleteResult struct {
	XMLName xml.Name `xml:"DeleteResult"`
	NS      string   `xml:"xmlns,attr"`
	Deleted []deletedKey
	Errors  []deleteError `xml:"Error"`
}

type deletedKey struct{ Key string }

type deleteError struct {
	Key     string
	Code    fault.Code
	Message string
}

// maxDeletes is the largest number of keys of one request in S3.
const maxDeletes = 1000

func (c *call) deleteObjects() error {
	if err := c.may("deleteStorage", true); err != nil {
		return err
	}
	var wanted deleteRequest
	if err := c.read(&wanted); err != nil {
		return err
	}
	if n := len(wanted.Objects); n == 0 || n > maxDeletes {
		return fault.New(fault.MalformedXML, "The request must name between 1 and %d keys.", maxDeletes)
	}
	out := deleteResult{NS: namespace}
	for _, o := range wanted.Objects {
		condition := storage.Condition{}
		if strings.TrimSpace(o.ETag) != "" {
			condition.ETag = ownETag(strings.TrimSpace(o.ETag))
		}
		var err error
		if o.VersionID != "" && o.VersionID != "null" {
			err = notImplemented("VersionId")
		} else {
			err = c.remove(o.Key, condition)
		}
		switch {
		case err != nil:
			e := faultOf(err)
			out.Errors = append(out.Errors, deleteError{o.Key, e.Code, e.Message})
		case !wanted.Quiet:
			out.Deleted = append(out.Deleted, deletedKey{o.Key})
		}
	}
	return c.reply(out)
}
