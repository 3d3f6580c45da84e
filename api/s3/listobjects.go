package s3

import (
	"encoding/base64"
	"encoding/xml"
	"net/url"
	"strconv"

	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/api/s3/sigv4"
)

// maxKeys is the largest page of S3.
const maxKeys = 1000

type contents struct {
	Key          string
	LastModified string
	ETag         string
	Size         int64
	StorageClass string
	Owner        *owner `xml:",omitempty"`
}

type commonPrefix struct{ Prefix string }

type objectList struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	NS                    string   `xml:"xmlns,attr"`
	Name                  string
	Prefix                string
	Marker                *string `xml:",omitempty"`
	NextMarker            string  `xml:",omitempty"`
	StartAfter            string  `xml:",omitempty"`
	ContinuationToken     string  `xml:",omitempty"`
	NextContinuationToken string  `xml:",omitempty"`
	KeyCount              *int    `xml:",omitempty"`
	MaxKeys               int
	Delimiter             string `xml:",omitempty"`
	EncodingType          string `xml:",omitempty"`
	IsTruncated           bool
	Contents              []contents
	CommonPrefixes        []commonPrefix
}

// listObjects is version 1: the next page begins after a key.
func (c *call) listObjects(q url.Values) error {
	marker := q.Get("marker")
	out, next, err := c.listed(q, marker, true)
	if err != nil {
		return err
	}
	marker = out.encode(marker)
	out.Marker, out.NextMarker = &marker, out.encode(next)
	return c.reply(out)
}

// listObjectsV2 is version 2: the next page begins after a token.
func (c *call) listObjectsV2(q url.Values) error {
	after, token := q.Get("start-after"), q.Get("continuation-token")
	if q.Has("continuation-token") {
		text, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || len(text) == 0 {
			return fault.New(fault.InvalidArgument, "The continuation token provided is incorrect")
		}
		after = string(text)
	}
	out, next, err := c.listed(q, after, q.Get("fetch-owner") == "true")
	if err != nil {
		return err
	}
	n := len(out.Contents) + len(out.CommonPrefixes)
	out.KeyCount, out.ContinuationToken, out.StartAfter = &n, token, out.encode(q.Get("start-after"))
	if next != "" {
		out.NextContinuationToken = base64.RawURLEncoding.EncodeToString([]byte(next))
	}
	return c.reply(out)
}

// listed returns a page, and the key after which the next one begins.
func (c *call) listed(q url.Values, after string, withOwner bool) (out *objectList, next string, err error) {
	if err := c.may("listStorage", false); err != nil {
		return nil, "", err
	}
	out = &objectList{NS: namespace, Name: c.bucket, MaxKeys: maxKeys, Delimiter: q.Get("delimiter"), EncodingType: q.Get("encoding-type")}
	if out.MaxKeys, err = limitOf(q, "max-keys", maxKeys); err != nil {
		return nil, "", err
	}
	switch {
	case out.Delimiter != "" && out.Delimiter != "/":
		return nil, "", notImplemented("a delimiter other than /")
	case out.EncodingType != "" && out.EncodingType != "url":
		return nil, "", fault.New(fault.InvalidArgument, "Invalid Encoding Method specified in Request")
	}
	page, more, err := c.list(keyRange{prefix: q.Get("prefix"), after: after, folders: out.Delimiter != "", limit: out.MaxKeys})
	if err != nil {
		return nil, "", err
	}
	out.Prefix, out.Delimiter, out.IsTruncated = out.encode(q.Get("prefix")), out.encode(out.Delimiter), more
	for _, e := range page {
		c.show(out, e, withOwner)
	}
	if more {
		next = page[len(page)-1].key
	}
	return out, next, nil
}

func (c *call) show(out *objectList, e entry, withOwner bool) {
	if e.common {
		out.CommonPrefixes = append(out.CommonPrefixes, commonPrefix{out.encode(e.key)})
		return
	}
	shown := contents{Key: out.encode(e.key), LastModified: stamp(e.object.UpdatedAt), ETag: etagOf(e.object), Size: e.object.Size, StorageClass: "STANDARD"}
	if withOwner {
		o := c.owner()
		shown.Owner = &o
	}
	out.Contents = append(out.Contents, shown)
}

func (l *objectList) encode(text string) string {
	if l.EncodingType == "" {
		return text
	}
	return sigv4.Escape(text)
}

// limitOf reads the size of a page.
func limitOf(q url.Values, name string, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return most, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, fault.New(fault.InvalidArgument, "%s must be an integer between 0 and 2147483647", name)
	}
	return min(int(n), most), nil
}
