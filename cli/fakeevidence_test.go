package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
)

// evidenceSigner signs the bundles of the fake with a fixed key.
type evidenceSigner struct{ ed25519.PrivateKey }

func newEvidenceSigner() evidenceSigner {
	return evidenceSigner{ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))}
}

func (evidenceSigner) Active() string { return "k1" }

func (s evidenceSigner) Sign(_ context.Context, _ string, body []byte) ([]byte, error) {
	return ed25519.Sign(s.PrivateKey, body), nil
}

// signedEvidence returns the file of bundle 1.
func signedEvidence() string {
	p := bundle.Predicate{
		ID: id(64), Environment: "test", Number: 1, Kind: bundle.Allocation, About: "core42:aicloud:-:t:p:allocation:" + id(1).String(), Cause: "request/1", RequestedBy: "user:1", CollectedAt: birth.UTC(),
	}
	for _, name := range bundle.Names() {
		p.Parts = append(p.Parts, bundle.Part{Name: name, Records: json.RawMessage(`[{"record":"` + name + `"}]`)})
	}
	file, _, err := bundle.Sign(context.Background(), newEvidenceSigner(), p)
	if err != nil {
		panic(err)
	}
	return string(file)
}

func fakeBundle(status, about string) oapi.EvidenceBundle {
	e := oapi.EvidenceBundle{
		Id: id(65), Urn: "u", Kind: "allocation", About: "core42:aicloud:-:t:p:allocation:" + about, RequestedBy: "user:1", Status: oapi.EvidenceStatus(status), CreatedAt: birth, UpdatedAt: birth,
	}
	if status == "failed" {
		code, message := "unavailable", "the object store has not stored the evidence bundle"
		e.Id, e.FailureCode, e.FailureMessage = id(66), &code, &message
	}
	if status == "signed" {
		number, kid := int64(1), "k1"
		file := signedEvidence()
		sum, key := bundle.SHA256([]byte(file)), base64.StdEncoding.EncodeToString(newEvidenceSigner().Public().(ed25519.PublicKey))
		e.Id, e.Number, e.KeyId, e.PublicKey, e.Sha256 = id(64), &number, &kid, &key, &sum
	}
	return e
}
