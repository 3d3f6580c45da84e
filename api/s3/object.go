package s3

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/gpuaas/gpuaas/api/rest/storage/attachment"
	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// etagSuffix makes clients treat an ETag as opaque. They compare 32 hexadecimal digits with the MD5 of the bytes;
// with a hyphen, they expect the ETag of an upload in parts, which no client can calculate.
const etagSuffix = `-1"`

func etagOf(o storage.Object) string { return strings.TrimSuffix(o.ETag(), `"`) + etagSuffix }

// conditionOf returns the precondition of a request on the file that it writes.
func conditionOf(h http.Header) (c storage.Condition, err error) {
	switch text := h.Get("If-None-Match"); text {
	case "":
	case "*":
		c.Absent = true
	default:
		return c, notImplemented("If-None-Match with an ETag")
	}
	if text := h.Get("If-Match"); text != "" {
		c.ETag = ownETag(text)
	}
	return c, nil
}

// ownETag returns the ETag of the service for that of an S3 client, who may leave the quotation marks out.
func ownETag(text string) string {
	if text == "*" {
		return text
	}
	text = strings.Trim(text, `"`)
	if i := strings.LastIndexByte(text, '-'); i >= 0 {
		text = text[:i]
	}
	return `"` + text + `"`
}

// path parses the key of a request. A key that ends with a slash is a folder.
func (c *call) path(key string) (p objectpath.Path, folder bool, err error) {
	text, folder := strings.CutSuffix(key, "/")
	if len(key) > objectpath.MaxBytes {
		return nil, folder, fault.New(fault.KeyTooLong, "Your key is too long")
	}
	if p, err = objectpath.Parse("key", text); err != nil {
		return nil, folder, err
	}
	return p, folder, c.within(p)
}

// oneRange matches one range of bytes, which the endpoint supports. Another header is ignored, as HTTP permits.
var oneRange = regexp.MustCompile(`^bytes=([0-9]+-[0-9]*|-[0-9]+)$`)

// getObject answers GetObject and HeadObject.
func (c *call) getObject() error {
	operation := "downloadStorage"
	if c.r.Method == http.MethodHead {
		operation = "statStorage"
	}
	if err := c.may(operation, false); err != nil {
		return err
	}
	q := c.r.URL.Query()
	if n := q.Get("partNumber"); n != "" && n != "1" {
		return notImplemented("partNumber")
	}
	p, folder, err := c.path(c.key)
	if err != nil {
		return err
	}
	o, err := c.Storage.Stat(c.ctx(), c.scope(), p)
	switch {
	case err != nil:
		return err
	case folder != (o.Type == storage.Folder):
		return fault.New(fault.NoSuchKey, "The specified key does not exist.")
	case folder:
		c.showFolder(o)
		return nil
	}
	return c.send(p, q)
}

func (c *call) showFolder(o storage.Object) {
	h := c.w.Header()
	attachment.SetHeaders(h, o)
	showMetadata(h, o.Metadata)
	h.Set("Content-Type", "application/x-directory")
	h.Set("ETag", etagOf(o))
	h.Set("Last-Modified", o.UpdatedAt.UTC().Format(http.TimeFormat))
	h.Set("Content-Length", "0")
	c.w.WriteHeader(http.StatusOK)
}

// send writes the bytes of a file. They pass through the server also where the object store has signed URLs: S3 clients sign
// the domain name.
func (c *call) send(p objectpath.Path, q url.Values) error {
	o, content, err := c.Storage.Open(c.ctx(), c.scope(), p)
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // it was read
	h := c.w.Header()
	attachment.SetHeaders(h, o)
	showMetadata(h, o.Metadata)
	h.Set("ETag", etagOf(o))
	override(h, q)
	r := c.r.Clone(c.ctx())
	if text := r.Header.Get("Range"); text != "" && !oneRange.MatchString(text) {
		r.Header.Del("Range")
	}
	if o.SHA256 != nil && r.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" && r.Header.Get("Range") == "" {
		h.Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(o.SHA256))
		h.Set("X-Amz-Checksum-Type", "FULL_OBJECT")
	}
	if out, ok := c.w.(*patientWriter); ok {
		out.request = c.r
	}
	http.ServeContent(c.w, r, "", o.UpdatedAt, content)
	return nil
}

// override sets the headers that a request names. The bytes stay an attachment of a type that no browser executes.
func override(h http.Header, q url.Values) {
	if text := q.Get("response-content-type"); text != "" {
		h.Set("Content-Type", attachment.SafeType(mediaType(text)))
	}
	if text := q.Get("response-content-disposition"); strings.HasPrefix(strings.ToLower(text), "attachment") {
		h.Set("Content-Disposition", text)
	}
	for parameter, name := range map[string]string{
		"response-cache-control": "Cache-Control", "response-expires": "Expires", "response-content-language": "Content-Language", "response-content-encoding": "Content-Encoding",
	} {
		if text := q.Get(parameter); text != "" {
			h.Set(name, text)
		}
	}
}
