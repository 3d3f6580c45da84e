package s3

import (
	"context"
	"encoding/xml"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

type partEntry struct {
	PartNumber   int
	LastModified string
	ETag         string
	Size         int64
}

type partList struct {
	XMLName              xml.Name `xml:"ListPartsResult"`
	NS                   string   `xml:"xmlns,attr"`
	Bucket               string
	Key                  string
	UploadID             string `xml:"UploadId"`
	Initiator, Owner     owner
	StorageClass         string
	PartNumberMarker     int
	NextPartNumberMarker int
	MaxParts             int
	IsTruncated          bool
	Parts                []partEntry `xml:"Part"`
}

func (c *call) listParts(u storage.Upload, q url.Values) error {
	if err := c.may("listStorage", false); err != nil {
		return err
	}
	out := partList{NS: namespace, Bucket: c.bucket, Key: c.key, UploadID: u.ID.String(), Initiator: c.owner(), Owner: c.owner(), StorageClass: "STANDARD"}
	var err error
	if out.MaxParts, err = limitOf(q, "max-parts", maxKeys); err != nil {
		return err
	}
	if out.PartNumberMarker, err = limitOf(q, "part-number-marker", blob.MaxParts); err != nil {
		return err
	}
	if q.Get("part-number-marker") == "" {
		out.PartNumberMarker = 0
	}
	parts, err := c.Storage.PartsOf(c.ctx(), c.scope(), u.ID, out.PartNumberMarker, out.MaxParts+1)
	if err != nil {
		return uploadFault(err, fault.NoSuchUpload)
	}
	if out.IsTruncated = len(parts) > out.MaxParts; out.IsTruncated {
		parts = parts[:out.MaxParts]
	}
	for _, p := range parts {
		out.Parts, out.NextPartNumberMarker = append(out.Parts, partEntry{p.Number, stamp(p.StoredAt), partETag(p), p.Size}), p.Number
	}
	return c.reply(out)
}

type uploadEntry struct {
	Key          string
	UploadID     string `xml:"UploadId"`
	Initiated    string
	StorageClass string
}

type uploadList struct {
	XMLName            xml.Name `xml:"ListMultipartUploadsResult"`
	NS                 string   `xml:"xmlns,attr"`
	Bucket             string
	KeyMarker          string
	UploadIDMarker     string `xml:"UploadIdMarker"`
	NextKeyMarker      string `xml:",omitempty"`
	NextUploadIDMarker string `xml:"NextUploadIdMarker,omitempty"`
	Prefix             string
	EncodingType       string `xml:",omitempty"`
	MaxUploads         int
	IsTruncated        bool
	Uploads            []uploadEntry `xml:"Upload"`
}

// listUploads lists the uploads in progress in the sequence in which they began. The next page begins after an upload.
func (c *call) listUploads(q url.Values) error {
	if err := c.may("listStorage", false); err != nil {
		return err
	}
	out := uploadList{
		NS: namespace, Bucket: c.bucket, KeyMarker: q.Get("key-marker"), UploadIDMarker: q.Get("upload-id-marker"), Prefix: q.Get("prefix"), EncodingType: q.Get("encoding-type"),
	}
	var err error
	if out.MaxUploads, err = limitOf(q, "max-uploads", maxKeys); err != nil {
		return err
	}
	after := uuid.Nil
	if out.UploadIDMarker != "" {
		if after, err = uuid.Parse(out.UploadIDMarker); err != nil {
			return fault.New(fault.InvalidArgument, "Invalid uploadId marker")
		}
	}
	if err := c.fill(c.ctx(), &out, after); err != nil {
		return err
	}
	return c.reply(out)
}

// fill adds the uploads whose keys have the prefix, and that the access key may use.
func (c *call) fill(ctx context.Context, out *uploadList, after uuid.UUID) error {
	encode := func(text string) string { return (&objectList{EncodingType: out.EncodingType}).encode(text) }
	for {
		page, err := c.Storage.Uploads(ctx, c.scope(), after, maxKeys)
		if err != nil {
			return err
		}
		for _, u := range page {
			after = u.ID
			key := u.Path.String()
			if u.State != storage.Open || !strings.HasPrefix(key, out.Prefix) || c.within(u.Path) != nil {
				continue
			}
			if len(out.Uploads) == out.MaxUploads {
				out.IsTruncated = true
				return nil
			}
			out.Uploads = append(out.Uploads, uploadEntry{encode(key), u.ID.String(), stamp(u.CreatedAt), "STANDARD"})
			out.NextKeyMarker, out.NextUploadIDMarker = encode(key), u.ID.String()
		}
		if len(page) < maxKeys {
			out.NextKeyMarker, out.NextUploadIDMarker = "", ""
			return nil
		}
	}
}
