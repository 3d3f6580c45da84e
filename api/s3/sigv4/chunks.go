package sigv4

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/api/s3/fault"
)

const (
	// maxLine bounds a line of the framing. A line of a chunk has a number and a signature, one of the trailer a checksum.
	maxLine = 4096
	// maxTrailer bounds the lines of a trailer.
	maxTrailer = 16

	chunkKind   = "AWS4-HMAC-SHA256-PAYLOAD"
	trailerKind = "AWS4-HMAC-SHA256-TRAILER"
	emptyHash   = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// chunks reads a body in the framing aws-chunked. The bytes of a chunk are returned before its signature is verified, and a
// wrong one is the error of a later Read: no caller may use the body before its end.
type chunks struct {
	from    *bufio.Reader
	signed  bool
	chain   Chain
	names   []string // of the trailers
	trailer func(name, value string) error

	left      int64 // of the whole body
	chunk     int64 // of the current chunk
	signature string
	sum       hash.Hash
	began     bool
	err       error
}

func newChunks(from io.Reader, size int64, signed bool, chain Chain, names []string, trailer func(name, value string) error) *chunks {
	return &chunks{from: bufio.NewReaderSize(from, maxLine), signed: signed, chain: chain, names: names, trailer: trailer, left: size, sum: sha256.New()}
}

// Read returns bytes of the current chunk.
func (c *chunks) Read(p []byte) (int, error) {
	for c.err == nil && c.chunk == 0 {
		c.err = c.next()
	}
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.from.Read(p[:min(int64(len(p)), c.chunk)])
	c.chunk -= int64(n)
	c.left -= int64(n)
	if c.signed {
		_, _ = c.sum.Write(p[:n])
	}
	if err != nil {
		c.err = broken(err)
	}
	return n, nil
}

func broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault.New(fault.IncompleteBody, "The body ends inside a chunk.")
	}
	return err
}

// next ends the current chunk, and reads the line of the following one. It returns io.EOF after the last.
func (c *chunks) next() error {
	if c.began {
		if err := c.endChunk(); err != nil {
			return err
		}
	}
	line, err := c.line()
	if err != nil {
		return err
	}
	number, extension, _ := strings.Cut(line, ";")
	size, err := strconv.ParseUint(number, 16, 63)
	if err != nil || len(number) > 16 {
		return fault.New(fault.IncompleteBody, "A chunk has no valid size.")
	}
	signature, found := strings.CutPrefix(extension, "chunk-signature=")
	if found != c.signed {
		return fault.New(fault.InvalidRequest, "The chunks are not signed as the headers announce.")
	}
	c.chunk, c.signature, c.began = int64(size), signature, true
	switch {
	case c.chunk > c.left:
		return fault.New(fault.IncompleteBody, "The chunks have more bytes than X-Amz-Decoded-Content-Length announces.")
	case c.chunk > 0:
		return nil
	}
	return c.end()
}

// endChunk verifies the signature of the bytes of a chunk.
func (c *chunks) endChunk() error {
	if line, err := c.line(); err != nil || line != "" {
		return errors.Join(err, fault.New(fault.IncompleteBody, "A chunk is longer than its size."))
	}
	return c.verify()
}

func (c *chunks) verify() error {
	if !c.signed {
		return nil
	}
	sum := hex.EncodeToString(c.sum.Sum(nil))
	c.sum.Reset()
	return c.chain.next(chunkKind, c.signature, emptyHash, sum)
}

// end reads the trailer after the chunk of size 0.
func (c *chunks) end() error {
	if err := c.verify(); err != nil {
		return err
	}
	if c.left > 0 {
		return fault.New(fault.IncompleteBody, "The chunks have fewer bytes than X-Amz-Decoded-Content-Length announces.")
	}
	if err := c.readTrailer(); err != nil {
		return err
	}
	if _, err := c.from.ReadByte(); err == nil {
		return fault.New(fault.IncompleteBody, "There are bytes after the last chunk.")
	}
	return io.EOF
}

func (c *chunks) readTrailer() error {
	var canonical strings.Builder
	signature, separated := "", false
	for range maxTrailer {
		line, err := c.line()
		switch {
		case err != nil && len(c.names) == 0 && !c.signed && c.atEnd():
			return nil // some clients leave the last empty line out
		case err != nil:
			return err
		case line == "" && c.signed && signature == "" && canonical.Len() > 0 && !separated:
			separated = true // some clients send an empty line before the signature
			continue
		case line == "":
			return c.verifyTrailer(canonical.String(), signature)
		}
		name, value, found := strings.Cut(line, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case found && name == "x-amz-trailer-signature" && signature == "":
			signature = value
			continue
		case !found || !slices.Contains(c.names, name):
			return fault.New(fault.InvalidRequest, "The trailer %q was not announced.", name)
		}
		canonical.WriteString(name + ":" + value + "\n")
		if err := c.trailer(name, value); err != nil {
			return err
		}
	}
	return fault.New(fault.InvalidRequest, "The trailer has too many lines.")
}

func (c *chunks) atEnd() bool {
	_, err := c.from.Peek(1)
	return errors.Is(err, io.EOF)
}

func (c *chunks) verifyTrailer(canonical, signature string) error {
	if !c.signed || len(c.names) == 0 {
		return nil
	}
	sum := sha256.Sum256([]byte(canonical))
	return c.chain.next(trailerKind, signature, hex.EncodeToString(sum[:]))
}

// line reads a line without its end.
func (c *chunks) line() (string, error) {
	line, err := c.from.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fault.New(fault.IncompleteBody, "A line of the framing is too long.")
	case err != nil:
		return "", broken(err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}
