package s3

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/product/storage"
)

const (
	metadataPrefix = "X-Amz-Meta-"
	// maxMetadata is the limit of S3 on the bytes of all names and values.
	maxMetadata = 2 << 10
)

// metadataOf returns the metadata of a request. Names are lower-case, and values of one name are joined, as in S3.
func metadataOf(h http.Header) (storage.Metadata, error) {
	m, size := storage.Metadata{}, 0
	for name, values := range h {
		name, found := strings.CutPrefix(name, metadataPrefix)
		if !found {
			continue
		}
		value := strings.Join(values, ",")
		if !utf8.ValidString(value) || name == "" || strings.ContainsFunc(name+value, unicode.IsControl) {
			return nil, fault.New(fault.InvalidArgument, "Metadata have a name, and a value in UTF-8 without control characters: %q", metadataPrefix+name)
		}
		m[strings.ToLower(name)] = value
		size += len(name) + len(value)
	}
	if size > maxMetadata {
		return nil, fault.New(fault.MetadataTooLarge, "Your metadata headers have %d bytes. The maximum allowed metadata size is %d.", size, maxMetadata)
	}
	return m, nil
}

// showMetadata adds the metadata of an object to a response. The names are lower-case as in S3, because boto3 distinguishes them.
func showMetadata(h http.Header, m storage.Metadata) {
	for name, value := range m {
		h[strings.ToLower(metadataPrefix)+name] = []string{value}
	}
}

// described returns how a copy differs from its original, or nil.
func (c *call) described() (*storage.Described, error) {
	switch directive := c.r.Header.Get("X-Amz-Metadata-Directive"); directive {
	case "", "COPY":
		return nil, nil //nolint:nilnil // it does not differ
	case "REPLACE":
		m, err := metadataOf(c.r.Header)
		return &storage.Described{MediaType: mediaType(c.r.Header.Get("Content-Type")), Metadata: m}, err
	default:
		return nil, fault.New(fault.InvalidArgument, "Unknown metadata directive.")
	}
}

// accepted lists headers with the values that change nothing. Another value requests what the endpoint does not have.
var accepted = map[string][]string{
	"X-Amz-Acl":               {"private", "bucket-owner-full-control"}, // the owner of a project has all files
	"X-Amz-Storage-Class":     {"STANDARD"},
	"X-Amz-Tagging-Directive": {"COPY"}, // there are none
}

// hoisted moves the parameters of a presigned URL that replace headers into the headers: some clients sign them so.
func hoisted(h http.Header, q url.Values) {
	for name, values := range q {
		name = http.CanonicalHeaderKey(name)
		if strings.HasPrefix(name, metadataPrefix) || accepted[name] != nil || slices.Contains(unsupportedHeaders, name) {
			h[name] = append(h[name], values...)
		}
	}
}

// ineffective rejects a header whose promise the endpoint would not fulfil.
func ineffective(h http.Header) error {
	for _, name := range unsupportedHeaders {
		if h.Get(name) != "" {
			return notImplemented(name)
		}
	}
	for name, values := range accepted {
		for _, value := range h.Values(name) {
			if !slices.Contains(values, value) {
				return notImplemented(name + ": " + value)
			}
		}
	}
	return nil
}
