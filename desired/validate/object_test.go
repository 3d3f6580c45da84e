package validate

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func checker(t *testing.T) *Checker {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const someID = "01935b1e-7c2f-7000-8000-000000000001"

// specs contains one value of each Go type that mirrors a definition.
func specs() map[desired.Kind]any {
	expire := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	return map[desired.Kind]any{
		desired.KindEnvironment: desired.Environment{
			DisplayName: "D", Vendor: "v", Service: "s", Region: "r", TrustDomain: "d.example", Development: true, TestCreditMinor: 1, Sources: someSources(),
			SignIn:   desired.SignIn{Issuer: "https://id.example", ClientID: "c", CLIClientID: "d", Audience: "a", RolesClaim: "r.s", JobIssuers: []string{"https://jobs.example"}, Roles: map[string]string{"x": "admin"}},
			Payments: desired.Payments{Provider: desired.ProviderStripe, Livemode: true},
			Storage: desired.Storage{
				Driver: desired.StorageS3, Endpoint: "https://s3.example", Region: "eu-1", Bucket: "objects", Prefix: "p", PathStyle: true, SSE: desired.EncryptionKMS, KMSKeyID: "key", Checksums: true, CredentialsRef: "credential:objects",
			},
		},
		desired.KindPolicy:       desired.Policy{Key: "node.report_seconds", Scope: "platform", Value: 5},
		desired.KindRole:         desired.Role{Description: "d", Operations: []string{"listSKUs"}},
		desired.KindSKU:          desired.SKU{DisplayName: "D", GPUModel: "Tesla T4", MemoryGiB: 16, Isolation: "host_user", MaxGPUs: 4, Active: true, Price: desired.Price{Currency: "EUR", AmountMinor: 35}},
		desired.KindOSImage:      desired.OSImage{DisplayName: "D", Digest: "sha256:" + strings.Repeat("0", 64), Default: true},
		desired.KindStorageClass: desired.StorageClass{DisplayName: "D", Price: desired.Price{Currency: "EUR", AmountMinor: 3}, FreeGiB: 5, RetentionDays: 14, Default: true},
		desired.KindNode:         desired.Node{SKU: "t4", Region: "r", Onboarding: "simulated", GPUs: 4, Slicing: "whole_gpu", Hardware: "t4-4", Cordoned: true},
		desired.KindAllocation: desired.Allocation{
			Tenant: someID, Project: someID, User: someID, SKU: "t4", GPUs: 1, Node: someID, Slots: []string{someID},
			GPUUUIDs: []string{"GPU-1"}, Login: "a1", UID: 70001, Keys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA me@here"}, Released: true, Reason: "asked", ExpireAt: &expire,
		},
	}
}

// The Go types and the definitions have the same fields.
func TestSpecsMirrorTheSchema(t *testing.T) {
	t.Parallel()
	c := checker(t)
	if err := c.renew(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range desired.Kinds() {
		spec := specs()[kind]
		raw, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		o, err := c.Object(desired.Object{Kind: kind, Name: "x", Labels: map[string]string{"a": "b"}, Spec: raw})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		back := reflect.New(reflect.TypeOf(spec))
		if err := json.Unmarshal(o.Spec, back.Interface()); err != nil {
			t.Fatal(err)
		}
		if p, ok := reflect.TypeAssert[*desired.Policy](back); ok {
			p.Value = int(p.Value.(float64)) // any decodes so
		}
		if diff := cmp.Diff(spec, back.Elem().Interface()); diff != "" {
			t.Errorf("%s changes on its way (-in +out):\n%s", kind, diff)
		}
		var inGo []string
		for f := range reflect.TypeOf(spec).Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			inGo = append(inGo, name)
		}
		inSchema := slices.Clone(c.fields[kind]["spec"].Fields)
		slices.Sort(inGo)
		slices.Sort(inSchema)
		if diff := cmp.Diff(inGo, inSchema); diff != "" {
			t.Errorf("%s has other fields (-Go +schema):\n%s", kind, diff)
		}
	}
}

func TestObjectRefusals(t *testing.T) {
	t.Parallel()
	c := checker(t)
	for name, c1 := range map[string]struct {
		o     desired.Object
		field string
	}{
		"unknown field": {desired.Object{Kind: desired.KindOSImage, Name: "x", Spec: []byte(`{"digest":"sha256:` + strings.Repeat("0", 64) + `","size":1}`)}, "spec.size"},
		"missing":       {desired.Object{Kind: desired.KindOSImage, Name: "x", Spec: []byte(`{}`)}, "spec.digest"},
		"name":          {desired.Object{Kind: desired.KindOSImage, Name: "X", Spec: []byte(`{"digest":"sha256:` + strings.Repeat("0", 64) + `"}`)}, "metadata.name"},
		"no json":       {desired.Object{Kind: desired.KindOSImage, Name: "x", Spec: []byte(`{`)}, "spec"},
		"no spec":       {desired.Object{Kind: desired.KindOSImage, Name: "x"}, "spec"},
		"kind":          {desired.Object{Kind: "Thing", Name: "x", Spec: []byte(`{}`)}, "kind"},
		"repeated":      {desired.Object{Kind: desired.KindOSImage, Name: "x", Spec: []byte(`{"digest":"a","digest":"b"}`)}, "digest"},
		"no cue":        {desired.Object{Kind: desired.KindOSImage, Name: "x", Spec: []byte(`{"digest": "\\(1)", "displayName": "\\(spec.digest)"}`)}, "spec.digest"},
	} {
		_, err := c.Object(c1.o)
		var e *errs.Error
		if !errors.As(err, &e) || e.Code != errs.SpecInvalid || e.Field != c1.field {
			t.Errorf("%s: %v (field %q)", name, err, c1.field)
		}
	}
}

// Contexts of the evaluator are not safe for concurrent use, and never free what they have
// evaluated.
func TestObjectFromManySides(t *testing.T) {
	t.Parallel()
	c := checker(t)
	c.slow = true // otherwise an object that the JSON Schema accepts does not reach the evaluator
	raw, err := json.Marshal(specs()[desired.KindAllocation])
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(desired.Object{Kind: desired.KindAllocation, Name: "x", Spec: raw}); err != nil {
		t.Fatal(err)
	}
	first := c.ctx
	var sides sync.WaitGroup
	for range 4 {
		sides.Go(func() {
			for range contextLife / 2 { // so that contexts are renewed on the way
				if err := c.Check(desired.Object{Kind: desired.KindAllocation, Name: "x", Spec: raw}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	sides.Wait()
	if c.ctx == first {
		t.Error("the context was never renewed")
	}
}

func BenchmarkObject(b *testing.B) {
	c, err := New()
	if err != nil {
		b.Fatal(err)
	}
	raw, err := json.Marshal(specs()[desired.KindAllocation])
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := c.Check(desired.Object{Kind: desired.KindAllocation, Name: "x", Spec: raw}); err != nil {
			b.Fatal(err)
		}
	}
}

func someSources() []desired.GitSource {
	return []desired.GitSource{{
		Name: "team", Repository: "https://git.example/team/fleet.git", Ref: "main", Dirs: []string{"fleet"}, Environment: "d",
		Forge: &desired.Forge{Kind: "github", URL: "https://api.git.example", Project: "team/fleet", TokenRef: "credential:team", WebhookSecretRef: "credential:hook"},
		Auth:  &desired.GitAuth{TokenRef: "credential:team", SSHKeyRef: "credential:team.key", KnownHostsRef: "credential:known_hosts"},
		Verify: desired.GitVerify{
			Required: true, OpenPGP: []string{"-----BEGIN PGP PUBLIC KEY BLOCK-----\n"}, SSH: []string{`ops@example.com namespaces="git" ssh-ed25519 AAAA`},
		},
	}}
}
