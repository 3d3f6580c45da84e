package sigv4

import (
	"crypto/md5"  //nolint:gosec // Content-MD5 is a checksum
	"crypto/sha1" //nolint:gosec // a checksum of S3
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"net/http"
	"strings"

	"github.com/gpuaas/gpuaas/api/s3/fault"
)

// checksumPrefix begins the headers of checksums.
const checksumPrefix = "x-amz-checksum-"

// nvme is the polynomial of CRC-64/NVME, reflected.
var (
	nvme       = crc64.MakeTable(0x9a6c9329ac4bc9b5)
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// checksums has the algorithms of S3.
var checksums = map[string]func() hash.Hash{
	"crc32":     func() hash.Hash { return crc32.NewIEEE() },
	"crc32c":    func() hash.Hash { return crc32.New(castagnoli) },
	"crc64nvme": func() hash.Hash { return crc64.New(nvme) },
	"sha1":      sha1.New,
	"sha256":    sha256.New,
}

// check is a checksum that a client has announced. The value of one in a trailer arrives after the body.
type check struct {
	name string // of the header
	code fault.Code
	sum  hash.Hash
	want []byte
}

// checksOf returns the checksums in the headers of a request.
func checksOf(h http.Header) (all []*check, err error) {
	text, err := singleValue(h, "Content-Md5")
	if err != nil {
		return nil, err
	}
	if text != "" {
		c := &check{name: "Content-MD5", code: fault.BadDigest, sum: md5.New()} //nolint:gosec // as above
		if err := c.expect(text); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	for name, values := range h {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, checksumPrefix) || lower == "x-amz-checksum-mode" || lower == "x-amz-checksum-type" || lower == "x-amz-checksum-algorithm" {
			continue
		}
		c, err := checkOf(lower)
		if err == nil {
			err = c.expect(values[0])
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func checkOf(header string) (*check, error) {
	create, ok := checksums[strings.TrimPrefix(header, checksumPrefix)]
	if !ok || !strings.HasPrefix(header, checksumPrefix) {
		return nil, fault.New(fault.InvalidRequest, "The checksum %q is not supported.", header)
	}
	return &check{name: header, code: fault.BadDigest, sum: create()}, nil
}

// expect sets the value in Base64.
func (c *check) expect(text string) error {
	want, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(want) != c.sum.Size() {
		return fault.New(fault.InvalidDigest, "The value of %s is not valid.", c.name)
	}
	c.want = want
	return nil
}
