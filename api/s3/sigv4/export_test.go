package sigv4

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
)

// SignChunk returns the signature of the next chunk.
func (c *Chain) SignChunk(body []byte) string {
	sum := sha256.Sum256(body)
	c.previous = hex.EncodeToString(c.sign(chunkKind, c.previous, emptyHash, hex.EncodeToString(sum[:])))
	return c.previous
}

// SignTrailer returns the signature of a trailer.
func (c *Chain) SignTrailer(canonical string) string {
	sum := sha256.Sum256([]byte(canonical))
	return hex.EncodeToString(c.sign(trailerKind, c.previous, hex.EncodeToString(sum[:])))
}

// Sign signs a request with the headers X-Amz-Date and X-Amz-Content-Sha256, as a client does.
func Sign(r *http.Request, keyID, secret, region string) {
	at, _ := time.Parse(timeFormat, r.Header.Get("X-Amz-Date"))
	s := Signature{KeyID: keyID, At: at, Region: region, Payload: r.Header.Get("X-Amz-Content-Sha256"), query: r.URL.Query()}
	s.headers = []string{"host"}
	for name := range r.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-") || lower == "content-type" || lower == "range" {
			s.headers = append(s.headers, lower)
		}
	}
	slices.Sort(s.headers)
	canonical, _ := s.canonical(r)
	sum := sha256.Sum256([]byte(canonical))
	c := Chain{key: signingKey(secret, at.Format(dateFormat), region), at: at.Format(timeFormat), scope: s.scope()}
	r.Header.Set("Authorization", algorithm+" Credential="+keyID+"/"+s.scope()+", SignedHeaders="+strings.Join(s.headers, ";")+", Signature="+
		hex.EncodeToString(c.sign(algorithm, hex.EncodeToString(sum[:]))))
}
