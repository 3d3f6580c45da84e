package preview_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/policies"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file that is read in review.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s has changed; run with -update and read the difference:\n%s", path, diff)
	}
}

// uid is a fixed id.
func uid(n byte) uuid.UUID {
	return uuid.UUID{0, 0, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, n}
}

func object(kind desired.Kind, name string, n byte, spec any) desired.Object {
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return desired.Object{
		Kind: kind, Name: name, UID: ids.Object{UUID: uid(n)}, Spec: text, SpecHash: desired.Hash(text), Generation: 2, ResourceVersion: 3,
		Source: desired.Source{Owner: desired.OwnerGit, Name: "fleet", Repository: "git://fleet", Commit: "9f3c2d1e", Path: "fleet.cue", Line: int(n), Column: 3},
	}
}

func sku(name string, n byte, price int64) desired.Object {
	return object(desired.KindSKU, name, n, desired.SKU{DisplayName: name, MaxGPUs: 8, Active: true, Price: desired.Price{Currency: "EUR", AmountMinor: price}})
}

func node(name string, n byte, change func(*desired.Node)) desired.Object {
	spec := desired.Node{SKU: "h100", Region: "eu-1", Onboarding: "manual", GPUs: 8, Slicing: "whole_gpu"}
	if change != nil {
		change(&spec)
	}
	return object(desired.KindNode, name, n, spec)
}

func cordon(n *desired.Node) { n.Cordoned = true }

func policy(name string, n byte, key, scope string, value any) desired.Object {
	return object(desired.KindPolicy, name, n, desired.Policy{Key: key, Scope: scope, Value: value})
}

func pair(old, now desired.Object) revision.Pair {
	now.UID = old.UID
	return revision.Pair{Old: old, New: now}
}

var (
	acme, umbrella = ids.Tenant{UUID: uid(101)}, ids.Tenant{UUID: uid(102)}
	train, serve   = ids.Project{UUID: uid(111)}, ids.Project{UUID: uid(112)}
	ada, bob       = ids.User{UUID: uid(121)}, ids.User{UUID: uid(122)}
)

func lives(n byte, on byte, gpus int) preview.Allocation {
	return preview.Allocation{
		ID: ids.Allocation{UUID: uid(n)}, Tenant: acme, Project: train, Node: ids.Node{UUID: uid(on)}, SKU: "h100", GPUs: gpus,
		Price: 249, Currency: "EUR", Charged: true,
	}
}

// inputs returns a fleet of three nodes, two of them with live allocations.
func inputs() preview.Inputs {
	other := lives(203, 8, 2)
	other.Tenant, other.Project = umbrella, serve
	return preview.Inputs{
		Fleet: 3,
		Nodes: []preview.Node{
			{ID: ids.Node{UUID: uid(7)}, Name: "n7", SKU: "h100", Stock: preview.Stock{Sold: 3, Open: 5}, Held: 3, Reported: true},
			{ID: ids.Node{UUID: uid(8)}, Name: "n8", SKU: "h100", Stock: preview.Stock{Sold: 2, Open: 6}, Held: 2, Reported: true},
			{ID: ids.Node{UUID: uid(9)}, Name: "n9", SKU: "h100", Stock: preview.Stock{Open: 8}},
		},
		Allocations: []preview.Allocation{lives(201, 7, 1), lives(202, 7, 2), other},
		Tenants: []preview.Tenant{
			{ID: acme, Name: "acme", Currency: "EUR", Balance: 25_000, Burn: 747},
			{ID: umbrella, Name: "umbrella", Currency: "EUR", Balance: -5, Burn: 498},
		},
		Holders: []preview.Holder{
			{Tenant: acme, TenantName: "acme", Project: train, ProjectName: "train", User: ada, Count: 2},
			{Tenant: umbrella, TenantName: "umbrella", Project: serve, ProjectName: "serve", User: bob, Count: 1},
		},
		Policies: policies.Snapshot{},
		Subjects: map[policies.Scope]policies.Scope{
			policies.Platform: policies.Platform, "tenant:acme": byID(acme), "tenant:umbrella": byID(umbrella), byID(acme): byID(acme),
			"project:" + policies.Scope(train.String()): "project:" + policies.Scope(train.String()),
			"project:" + policies.Scope(serve.String()): "project:" + policies.Scope(serve.String()),
			"user:" + policies.Scope(ada.String()):      "user:" + policies.Scope(ada.String()),
		},
		Prices: map[string]preview.Price{"h100": {Currency: "EUR", Minor: 249, Active: true}},
		Stock:  map[string]preview.Stock{"h100": {Sold: 5, Open: 19}},
		Burn:   map[string]money.Minor{"EUR": 1245},
	}
}

// byID is the scope of a tenant.
func byID(t ids.Tenant) policies.Scope { return policies.In(policies.LevelTenant, t.String()) }

func rules() preview.Rules {
	return preview.Rules{PruneObjects: 5, PrunePercent: 5, Requires: []string{preview.RequiresApproved}, MassPercent: 5, MassMinimum: 2}
}

func change(d revision.Difference) preview.Change {
	return preview.Change{Source: "fleet", Repository: "git://fleet", Commit: "9f3c2d1e9f3c2d1e", Base: "8e2b1c0d8e2b1c0d", Owner: desired.OwnerGit, Diff: d}
}

func made(d revision.Difference) preview.Plan { return preview.Make(change(d), inputs(), rules()) }
