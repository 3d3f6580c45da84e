package evidence

import (
	"context"
	"encoding/base64"
	"slices"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
)

// publicKey is the public part of a key after the step of a rotation.
type publicKey struct {
	Record string `json:"record"`
	secret.PublicPart
}

type keySet struct {
	Record    string `json:"record"`
	Kid       string `json:"key_id"`
	Body      string `json:"body"` // base64, as it was signed
	Signature string `json:"signature"`
}

// keyRotation collects the keys of a purpose. Those with which nodes verify are in a set that the step has signed for nodes. A
// rotation is requested on the server, and has no approval.
func (d Deps) keyRotation(ctx context.Context, r evidence.Record) (*records, error) {
	out := newRecords()
	parts, err := secret.PublicParts(ctx, d.DB)
	if err != nil {
		return nil, err
	}
	out.add(bundle.Requested, map[string]any{"record": "rotation", "purpose": r.Subject, "cause": r.Cause})
	for _, p := range parts {
		if p.Purpose == r.Subject {
			out.add(bundle.Observed, publicKey{"public_key", p})
		}
	}
	if !slices.Contains([]string{keystore.PurposeTasks, keystore.PurposeStatements, keystore.PurposeRelay}, r.Subject) {
		return out, d.audited(ctx, out, ids.Tenant{}, r.About)
	}
	sets, err := secret.OpenKeySets(ctx, d.DB)
	if err != nil {
		return nil, err
	}
	if _, signed := sets.Control(); len(signed) > 0 {
		last := signed[len(signed)-1]
		out.add(bundle.Executed, keySet{"key_set", last.Kid, base64.StdEncoding.EncodeToString(last.Body), base64.StdEncoding.EncodeToString(last.Signature)})
	}
	return out, d.audited(ctx, out, ids.Tenant{}, r.About)
}
