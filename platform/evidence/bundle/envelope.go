package bundle

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// payloadType is the type of an in-toto Statement in a DSSE envelope.
const payloadType = "application/vnd.in-toto+json"

// envelopeSize is more than an envelope has besides its payload.
const envelopeSize = 1 << 10

// Signer signs with Ed25519.
type Signer interface {
	Active() (kid string)
	Sign(ctx context.Context, kid string, body []byte) (signature []byte, err error)
}

// Sign returns the file of a bundle, and the id of the key that has signed it. Records is normalised, so that each digest
// covers the bytes of the file. Sign rejects records that Open would reject.
func Sign(ctx context.Context, by Signer, p Predicate) (file []byte, kid string, err error) {
	for i, part := range p.Parts {
		if p.Parts[i].Records, err = json.Marshal(part.Records); err != nil {
			return nil, "", fmt.Errorf("encoding part %s: %w", part.Name, err)
		}
	}
	content := newContent(p)
	if fault := content.check(); fault != nil {
		return nil, "", fmt.Errorf("building an evidence bundle: %w", fault)
	}
	payload, err := json.Marshal(content)
	if err != nil {
		return nil, "", fmt.Errorf("encoding an evidence bundle: %w", err)
	}
	if size := base64.StdEncoding.EncodedLen(len(payload)) + envelopeSize; size > MaxSize {
		return nil, "", errs.New(errs.BodyTooLarge, "the records need %d bytes, and a bundle has at most %d", size, MaxSize)
	}
	if fault := checkKeys("payload", payload); fault != nil {
		return nil, "", fmt.Errorf("building an evidence bundle: %w", fault)
	}
	kid = by.Active()
	sig, err := by.Sign(ctx, kid, dsse.PAE(payloadType, payload))
	if err != nil {
		return nil, "", fmt.Errorf("signing an evidence bundle: %w", err)
	}
	return encode(dsse.Envelope{
		PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(payload),
		Signatures: []dsse.Signature{{KeyID: kid, Sig: base64.StdEncoding.EncodeToString(sig)}},
	}), kid, nil
}

// encode returns the only form of a file: compact JSON and a line feed.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // our own types have a JSON form
		panic(err)
	}
	return append(text, '\n')
}

// Keys contains the trusted public keys by id.
type Keys map[string]ed25519.PublicKey

// Bundle is a verified file.
type Bundle struct {
	Content

	KeyID  string
	SHA256 string // of the file; the next bundle repeats it
}

// Open verifies a file: its form, its signature by one of the keys, and the digest of each part. The error is a *Fault. One core
// hashes a large bundle while another one reads its records.
func Open(file []byte, keys Keys) (Bundle, error) {
	var b Bundle
	var forged *Fault
	e, payload, fault := openEnvelope(file)
	if fault != nil {
		return Bundle{SHA256: SHA256(file)}, fault
	}
	var other sync.WaitGroup
	other.Go(func() { b.SHA256, forged = SHA256(file), e.verify(payload, keys) })
	content, faulty := openContent(payload)
	other.Wait()
	b.Content, b.KeyID = content, e.kid
	switch {
	case forged != nil && faulty != nil: // names the place of the change
		forged.Message += "; " + faulty.Error()
		return b, forged
	case forged != nil:
		return b, forged
	case faulty != nil:
		return b, faulty
	}
	return b, nil
}

// envelope has the texts of a DSSE envelope with one signature. Payload and sig are in base64.
type envelope struct {
	payload, sig []byte
	kid          string
}

func openEnvelope(file []byte) (e envelope, payload []byte, fault *Fault) {
	if len(file) > MaxSize {
		return e, nil, faultf("file", "has %d bytes, and a bundle has at most %d", len(file), MaxSize)
	}
	e, inForm := splitEnvelope(file)
	if !inForm {
		if e, fault = readEnvelope(file); fault != nil {
			return e, nil, fault
		}
	}
	payload, fault = decodePayload(e.payload)
	return e, payload, fault
}

// readEnvelope names what differs from the form.
func readEnvelope(file []byte) (envelope, *Fault) {
	var e dsse.Envelope
	if fault := decode("envelope", bytes.TrimSuffix(file, []byte("\n")), &e); fault != nil {
		return envelope{}, fault
	}
	switch {
	case e.PayloadType != payloadType:
		return envelope{}, faultf("envelope.payloadType", "is %q, not %q", e.PayloadType, payloadType)
	case len(e.Signatures) != 1:
		return envelope{}, faultf("envelope.signatures", "has %d signatures, and a bundle has exactly one", len(e.Signatures))
	case !bytes.HasSuffix(file, []byte("\n")):
		return envelope{}, faultf("envelope", "does not end with a line feed: the file was cut")
	}
	return envelope{payload: []byte(e.Payload), sig: []byte(e.Signatures[0].Sig), kid: e.Signatures[0].KeyID}, nil
}

func (e envelope) verify(payload []byte, keys Keys) *Fault {
	key, known := keys[e.kid]
	if !known {
		return faultf("envelope.signatures[0].keyid", "names the key %q, which is none of the given keys", e.kid)
	}
	sig, fault := decodeBase64("envelope.signatures[0].sig", e.sig)
	switch {
	case fault != nil:
		return fault
	case len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, dsse.PAE(payloadType, payload), sig):
		return faultf("envelope.signatures[0].sig", "is not of the key %q over this payload", e.kid)
	}
	return nil
}

// strict rejects bits that no byte has. It skips ends of lines, as every decoder of Go.
var strict = base64.StdEncoding.Strict()

// decodePayload decodes both halves of a payload at once.
func decodePayload(text []byte) ([]byte, *Fault) {
	const units = 4 // characters of three bytes
	half := len(text) / (2 * units) * units
	middle := strict.DecodedLen(half)
	out := make([]byte, strict.DecodedLen(len(text)))
	var n int
	var err error
	var other sync.WaitGroup
	other.Go(func() { n, err = strict.Decode(out[middle:], text[half:]) })
	m, failed := strict.Decode(out[:middle], text[:half])
	other.Wait()
	if err != nil || failed != nil || m != middle || len(text) != strict.EncodedLen(middle+n) {
		return decodeBase64("envelope.payload", text) // names the fault
	}
	return out[:middle+n], nil
}

// decodeBase64 accepts the one spelling of bytes.
func decodeBase64(where string, text []byte) ([]byte, *Fault) {
	out := make([]byte, strict.DecodedLen(len(text)))
	n, err := strict.Decode(out, text)
	switch {
	case err != nil:
		return nil, faultf(where, "is not base64: %v", err)
	case len(text) != strict.EncodedLen(n):
		return nil, faultf(where, "has ends of lines")
	}
	return out[:n], nil
}
