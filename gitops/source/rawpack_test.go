package source

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// rawPack builds packs that no git program would write.
type rawPack struct {
	body  bytes.Buffer
	count uint32
	// What a hostile server changes.
	version  uint32
	pretend  uint32                   // the object count of the header; 0: the true one
	finish   func(pack []byte) []byte // of the whole pack
	extra    string                   // of the advertisement
	answer   func(w http.ResponseWriter, r *http.Request, pack []byte) bool
	tip      plumbing.Hash
	tipNames []string
}

func (p *rawPack) at() int64 { return 12 + int64(p.body.Len()) }

func deflated(data []byte) []byte {
	var to bytes.Buffer
	z := zlib.NewWriter(&to)
	_, _ = z.Write(data)
	_ = z.Close()
	return to.Bytes()
}

// deflatedZeros compresses n zero bytes, in whole megabytes, in constant time: every megabyte after
// the first has the same compressed bytes.
func deflatedZeros(n int64) []byte {
	var to bytes.Buffer
	z, megabyte := zlib.NewWriter(&to), make([]byte, mib)
	_, _ = z.Write(megabyte)
	_ = z.Flush()
	first := to.Len()
	_, _ = z.Write(megabyte)
	_ = z.Flush()
	again := bytes.Clone(to.Bytes()[first:])
	to.Truncate(first)
	to.Write(bytes.Repeat(again, int(n/mib)-1))
	to.Write([]byte{0x03, 0x00}) // the last block, empty
	return binary.BigEndian.AppendUint32(to.Bytes(), uint32(n%65521)<<16|1)
}

func (p *rawPack) head(kind int, size int64) {
	b := byte(kind<<4) | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		p.body.WriteByte(b | 0x80)
		b = byte(size & 0x7f)
	}
	p.body.WriteByte(b)
	p.count++
}

// add packs an object honestly.
func (p *rawPack) add(kind plumbing.ObjectType, data []byte) plumbing.Hash {
	p.head(int(kind), int64(len(data)))
	p.body.Write(deflated(data))
	return plumbing.ComputeHash(kind, data)
}

// raw packs bytes that claim a kind and a size.
func (p *rawPack) raw(kind int, size int64, packed []byte) {
	p.head(kind, size)
	p.body.Write(packed)
}

func (p *rawPack) ofsDelta(back int64, delta []byte) {
	p.head(6, int64(len(delta)))
	enc := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		enc = append([]byte{0x80 | byte(back&0x7f)}, enc...)
	}
	p.body.Write(enc)
	p.body.Write(deflated(delta))
}

func (p *rawPack) refDelta(base plumbing.Hash, delta []byte) {
	p.head(7, int64(len(delta)))
	p.body.Write(base[:])
	p.body.Write(deflated(delta))
}

// delta copies n bytes from the start of its base, often enough to make whole.
func copies(base, whole int64) []byte {
	d := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(base)), uint64(whole))
	for left := whole; left > 0; {
		n := min(left, base, 0xffffff)
		d = append(d, 0x80|0x70, byte(n), byte(n>>8), byte(n>>16))
		left -= n
	}
	return d
}

func treeOfEntries(entries ...string) []byte { return []byte(strings.Join(entries, "")) }

func line40(mode, name string, hash plumbing.Hash) string {
	return mode + " " + name + "\x00" + string(hash[:])
}

func (p *rawPack) tree(entries ...string) plumbing.Hash {
	return p.add(plumbing.TreeObject, treeOfEntries(entries...))
}

func (p *rawPack) blob(text string) plumbing.Hash { return p.add(plumbing.BlobObject, []byte(text)) }

func commitText(tree plumbing.Hash) string {
	return fmt.Sprintf("tree %s\nauthor t <t@example.com> 1 +0000\ncommitter t <t@example.com> 1 +0000\n\nx\n", tree)
}

// root commits a tree; fleet commits a folder fleet of these entries.
func (p *rawPack) root(tree plumbing.Hash) {
	p.tip = p.add(plumbing.CommitObject, []byte(commitText(tree)))
}

func (p *rawPack) fleet(entries ...string) {
	p.root(p.tree(line40("40000", "fleet", p.tree(entries...))))
}

// good writes a complete small fleet, which the case then damages.
func (p *rawPack) good() { p.fleet(line40("100644", "a.cue", p.blob("a"))) }

func (p *rawPack) bytes() []byte {
	if p.version == 0 {
		p.version = 2
	}
	if p.pretend == 0 {
		p.pretend = p.count
	}
	all := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("PACK"), p.version), p.pretend)
	all = append(all, p.body.Bytes()...)
	sum := sha1.Sum(all)
	all = append(all, sum[:]...)
	if p.finish != nil {
		all = p.finish(all)
	}
	return all
}

// resummed gives a changed pack a checksum that fits.
func resummed(all []byte) []byte {
	sum := sha1.Sum(all)
	return append(bytes.Clone(all), sum[:]...)
}

func pkt(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// serve plays the smart protocol around the pack.
func (p *rawPack) serve() *httptest.Server {
	pack := p.bytes()
	return httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.answer != nil && p.answer(w, r, pack) {
			return
		}
		if r.Method == http.MethodGet {
			advertise(w, p.refs()+p.extra)
			return
		}
		result(w, pack)
	}))
}

func (p *rawPack) refs() string {
	if p.tipNames == nil {
		p.tipNames = []string{"refs/heads/main"}
	}
	caps, text := "\x00ofs-delta side-band-64k no-progress shallow", ""
	for _, name := range p.tipNames {
		text += pkt(p.tip.String() + " " + name + caps + "\n")
		caps = ""
	}
	return text
}

func advertise(w http.ResponseWriter, lines string) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	_, _ = io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+lines+"0000")
}

func result(w http.ResponseWriter, pack []byte) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	_, _ = io.WriteString(w, "0000"+pkt("NAK\n"))
	for len(pack) > 0 {
		n := min(len(pack), 60000)
		_, _ = fmt.Fprintf(w, "%04x\x01", n+5)
		_, _ = w.Write(pack[:n])
		pack = pack[n:]
	}
	_, _ = io.WriteString(w, "0000")
}

func gzipped(w http.ResponseWriter, kind string, n int64) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, _ = io.WriteString(z, pkt("# service=git-upload-pack\n")+"0000"+pkt(strings.Repeat("1", 40)+" refs/heads/main\x00ofs-delta\n"))
	one := pkt(strings.Repeat("1", 40) + " refs/heads/" + strings.Repeat("x", 60000) + "\n")
	for ; n > 0; n -= int64(len(one)) {
		_, _ = io.WriteString(z, one)
	}
	_ = z.Close()
}
