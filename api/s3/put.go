package s3

import (
	"encoding/xml"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/api/s3/sigv4"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

const maxMediaType = 255

// mediaType returns a media type without its parameters; empty where the text is none. S3 accepts any text.
func mediaType(text string) string {
	name, _, err := mime.ParseMediaType(text)
	if err != nil || len(name) > maxMediaType || !strings.Contains(name, "/") {
		return ""
	}
	return name
}

// body returns the body of the request, which is compared with its signature and checksums.
func (c *call) body() (*sigv4.Body, error) {
	b, err := sigv4.BodyOf(c.r, c.signature, c.chain)
	if err == nil && b.Size < 0 {
		err = fault.New(fault.MissingContentLength, "You must provide the Content-Length HTTP header.")
	}
	return b, err
}

// putObject stores a file, or creates a folder.
func (c *call) putObject() error {
	p, folder, err := c.path(c.key)
	if err != nil {
		return err
	}
	if folder {
		return c.putFolder(p)
	}
	if err := c.may("uploadStorage", true); err != nil {
		return err
	}
	f := storage.NewFile{Path: p, MediaType: mediaType(c.r.Header.Get("Content-Type"))}
	if f.If, err = conditionOf(c.r.Header); err != nil {
		return err
	}
	if f.Metadata, err = metadataOf(c.r.Header); err != nil {
		return err
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	f.Size, f.SHA256 = body.Size, body.SHA256
	from := io.Reader(body)
	if f.Size == 0 { // an object store need not read an empty body, which has checksums too
		if err := drain(body); err != nil {
			return err
		}
		from = http.NoBody
	}
	o, _, err := c.Storage.Upload(c.ctx(), c.scope(), f, from)
	if err != nil {
		return err
	}
	c.w.Header().Set("ETag", etagOf(o))
	c.w.WriteHeader(http.StatusOK)
	return nil
}

func drain(body io.Reader) error {
	_, err := io.Copy(io.Discard, body)
	return err
}

// putFolder creates a folder. One that exists is no error, as for the markers of folders of S3.
func (c *call) putFolder(p objectpath.Path) error {
	if err := c.may("createStorageFolder", true); err != nil {
		return err
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	if body.Size > 0 {
		return fault.New(fault.InvalidArgument, "A key that ends with a slash is a folder and has no bytes.")
	}
	m, err := metadataOf(c.r.Header)
	if err != nil {
		return err
	}
	if err := drain(body); err != nil {
		return err
	}
	o, err := c.folder(p, m)
	if err != nil {
		return err
	}
	c.w.Header().Set("ETag", etagOf(o))
	c.w.WriteHeader(http.StatusOK)
	return nil
}

// folder creates a folder, or gives one that exists other metadata.
func (c *call) folder(p objectpath.Path, m storage.Metadata) (storage.Object, error) {
	o, err := c.Storage.CreateFolder(c.ctx(), c.change(), p)
	if errs.CodeOf(err) == errs.AlreadyExists && o.Type == storage.Folder {
		err = nil
	}
	if err != nil || maps.Equal(o.Metadata, m) {
		return o, err
	}
	return c.Storage.SetMetadata(c.ctx(), c.change(), p, m)
}

type copyResult struct {
	XMLName      xml.Name `xml:"CopyObjectResult"`
	NS           string   `xml:"xmlns,attr"`
	LastModified string
	ETag         string
}

// copyObject copies a file without its bytes: the copy refers to the same ones.
func (c *call) copyObject() error {
	if err := c.may("copyStorage", true); err != nil {
		return err
	}
	to, folder, err := c.path(c.key)
	if err != nil {
		return err
	}
	from, source, err := c.source()
	if err != nil {
		return err
	}
	condition, err := conditionOf(c.r.Header)
	if err != nil {
		return err
	}
	changed, err := c.described()
	if err != nil {
		return err
	}
	var o storage.Object
	switch {
	case changed == nil && from.String() == to.String():
		return fault.New(fault.InvalidRequest, "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata.")
	case folder != (source.Type == storage.Folder):
		return fault.New(fault.InvalidArgument, "Only a folder can become a folder.")
	case folder:
		if changed == nil {
			changed = &storage.Described{Metadata: source.Metadata}
		}
		o, err = c.folder(to, changed.Metadata)
	default:
		o, err = c.Storage.Copy(c.ctx(), c.change(), storage.NewCopy{From: from, To: to, FromIf: c.sameSource(source), If: condition, Changed: changed})
	}
	if err != nil {
		return err
	}
	return c.reply(copyResult{NS: namespace, LastModified: stamp(o.UpdatedAt), ETag: etagOf(o)})
}

// source returns the object that X-Amz-Copy-Source names, if it fulfils the preconditions.
func (c *call) source() (objectpath.Path, storage.Object, error) {
	text, version, _ := strings.Cut(c.r.Header.Get("X-Amz-Copy-Source"), "?")
	if version != "" && version != "versionId=null" {
		return nil, storage.Object{}, notImplemented("versionId")
	}
	text, err := url.PathUnescape(strings.TrimPrefix(text, "/"))
	if err != nil {
		return nil, storage.Object{}, fault.New(fault.InvalidArgument, "Copy Source must mention the source bucket and key: sourcebucket/sourcekey")
	}
	bucket, key, _ := strings.Cut(text, "/")
	if bucket != c.use.ProjectName && bucket != c.use.Project.String() {
		return nil, storage.Object{}, fault.New(fault.NoSuchBucket, "The specified bucket does not exist")
	}
	p, folder, err := c.path(key)
	if err != nil {
		return nil, storage.Object{}, err
	}
	o, err := c.Storage.Stat(c.ctx(), c.scope(), p)
	switch {
	case err != nil:
		return nil, o, err
	case folder != (o.Type == storage.Folder):
		return nil, o, fault.New(fault.NoSuchKey, "The specified key does not exist.")
	}
	return p, o, c.sourceCondition(o)
}

// sameSource is the condition that the original still has the bytes for which its preconditions were true.
func (c *call) sameSource(o storage.Object) storage.Condition {
	for name := range c.r.Header {
		if strings.HasPrefix(name, "X-Amz-Copy-Source-If-") {
			return storage.Condition{ETag: o.ETag()}
		}
	}
	return storage.Condition{}
}

func (c *call) sourceCondition(o storage.Object) error {
	h := c.r.Header
	before := func(name string) bool {
		at, err := http.ParseTime(h.Get(name))
		return err == nil && !o.UpdatedAt.Truncate(time.Second).After(at)
	}
	match, none := h.Get("X-Amz-Copy-Source-If-Match"), h.Get("X-Amz-Copy-Source-If-None-Match")
	switch {
	case match != "" && match != "*" && ownETag(match) != o.ETag(),
		none == "*" || none != "" && ownETag(none) == o.ETag(),
		match == "" && h.Get("X-Amz-Copy-Source-If-Unmodified-Since") != "" && !before("X-Amz-Copy-Source-If-Unmodified-Since"),
		none == "" && before("X-Amz-Copy-Source-If-Modified-Since"):
		return preconditionFailed()
	}
	return nil
}
